package state

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

// port returns the owner tag of the n-th port of a Machine.
func port(machine types.UID, n int) Tag {
	return Cluster("c1").Tag(cloud.ResourcePort, machine, n)
}

func TestWhichOfTwoPortsWithTheSameOwnerTagTheInventoryKeeps(t *testing.T) {
	tag := port("u1", 0)
	for name, tc := range map[string]struct {
		first, second Port
		doubt         bool
		want          string
	}{
		"it keeps the known port when neither port is bound to a server":                {Port{ID: "a"}, Port{ID: "b"}, false, "a"},
		"it keeps the known port when both ports are bound to a server":                 {Port{ID: "a", DeviceID: "s"}, Port{ID: "b", DeviceID: "s"}, false, "a"},
		"it takes the new port when only the new port is bound to a server":             {Port{ID: "a"}, Port{ID: "b", DeviceID: "s"}, false, "b"},
		"it takes the new port when it is not certain that the known port still exists": {Port{ID: "a"}, Port{ID: "b"}, true, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAddresses()
			s.setPort(tag, tc.first, noon)
			if tc.doubt {
				s.DoubtPorts("u1")
			}
			s.setPort(tag, tc.second, noon)
			if got := s.Ports("u1")[0].ID; got != tc.want {
				t.Errorf("got port %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWhichKnownPortsAndFloatingIPsStayWhenDroverReadsTheCloudsList(t *testing.T) {
	isRegistered := func(machine types.UID) bool { return machine == "known" }
	for name, tc := range map[string]struct {
		machine      types.UID
		since        time.Time
		listed       bool
		there, doubt bool
	}{
		"a port that the list lacks stays known, but is marked as doubtful, when its Machine is in drover's registry": {"known", noon.Add(-time.Minute), false, true, true},
		"a port and a floating IP that the list lacks are forgotten when their Machine is not in drover's registry":   {"unknown", noon.Add(-time.Minute), false, false, false},
		"an unlisted port that was created after the list began stays known, and is not marked as doubtful":           {"known", noon, false, true, false},
		"a listed port and a listed floating IP stay known, even when their Machine is not in drover's registry":      {"unknown", noon.Add(-time.Minute), true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAddresses()
			s.setPort(port(tc.machine, 0), Port{ID: "a"}, tc.since)
			ip := FloatingIP{ID: "ip"}
			s.setFloatingIP(Tag{Kind: cloud.ResourceFloatingIP, Machine: tc.machine}, ip, tc.since)
			l := AddressLists{}
			if tc.listed {
				l = AddressLists{Ports: []Port{{ID: "a"}}, FloatingIPs: []FloatingIP{{ID: "ip"}}}
			}
			s.doubtUnlisted(l, noon, isRegistered)
			got, there := s.Ports(tc.machine)[0]
			if there != tc.there || got.Doubtful != tc.doubt {
				t.Errorf("port there: %v, doubtful: %v; want %v, %v", there, got.Doubtful, tc.there, tc.doubt)
			}
			if _, there := s.floating[tc.machine]; there != tc.there {
				t.Errorf("floating IP there: %v, want %v", there, tc.there)
			}
		})
	}
}

func TestDroverRecordsPortAndServerOfFloatingIPsWithoutThisClustersOwnerTag(t *testing.T) {
	on := func(port, description string) AddressLists {
		return AddressLists{Ports: []Port{{ID: "a", DeviceID: "s1"}, {ID: "free"}}, FloatingIPs: []FloatingIP{{ID: "ip", PortID: port, Description: description}}}
	}
	for name, tc := range map[string]struct {
		lists []AddressLists
		want  place
	}{
		"records the port that a list shows for the floating IP, and the server of that port (F-3)":           {[]AddressLists{on("a", "")}, place{"a", "s1"}},
		"keeps the record when the floating IP is disassociated, as happens when its server is deleted (F-3)": {[]AddressLists{on("a", ""), on("", "")}, place{"a", "s1"}},
		"deletes the record when the floating IP has moved to a port without a server (F-3)":                  {[]AddressLists{on("a", ""), on("free", "")}, place{}},
		"records nothing for a floating IP with this cluster's owner tag":                                     {[]AddressLists{on("a", "drover c1 u1 0")}, place{}},
		"records the port and server of a floating IP with another cluster's owner tag":                       {[]AddressLists{on("a", "drover c2 u1 0")}, place{"a", "s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAddresses()
			for _, l := range tc.lists {
				s.see(l, "c1")
			}
			if got := s.untagged["ip"]; got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestAddressesOfSubportsAreThoseOfTheServerOfTheirTrunk(t *testing.T) {
	var l AddressLists
	// The rows are in the form in which Neutron lists them: a subport is bound to no server.
	if err := json.Unmarshal([]byte(`{"Ports": [
		{"id": "parent", "device_id": "s1", "fixed_ips": [{"ip_address": "10.0.0.5"}], "trunk_details": {"trunk_id": "t", "sub_ports": [
			{"port_id": "sub", "segmentation_type": "vlan", "segmentation_id": 100}, {"port_id": "not-listed"}]}},
		{"id": "sub", "device_id": "", "fixed_ips": [{"ip_address": "10.1.0.5"}, {"ip_address": "fd00::5"}]},
		{"id": "unbound", "device_id": "", "trunk_details": {"sub_ports": [{"port_id": "other"}]}}, {"id": "other", "fixed_ips": [{"ip_address": "10.2.0.5"}]}
	]}`), &l); err != nil {
		t.Fatal(err)
	}
	s := newAddresses()
	s.setPort(port("u1", 0), l.Ports[0], noon)
	s.see(l, "c1")
	if got := s.internal("u1", "s1"); !slices.Equal(got, []string{"10.1.0.5", "fd00::5", "10.0.0.5"}) {
		t.Errorf("the server has %v, want its own addresses and those of the subport (F-113)", got)
	}
	if s.see(AddressLists{}, "c1"); len(s.internal("u1", "s1")) != 1 {
		t.Errorf("the server has %v after the trunk has gone, want its own address only", s.internal("u1", "s1"))
	}
}

func TestForgetForgetsOnlyThePortWithTheGivenID(t *testing.T) {
	s := newAddresses()
	s.setPort(port("u1", 0), Port{ID: "a"}, noon)
	if s.Forget(port("u1", 0), "b"); s.idOf(port("u1", 0)) == "" {
		t.Error("a port with another ID is forgotten")
	}
	if s.Forget(port("u1", 0), "a"); s.idOf(port("u1", 0)) != "" {
		t.Error("the port is still known")
	}
}
