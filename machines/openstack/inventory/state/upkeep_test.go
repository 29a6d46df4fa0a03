package state

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestOnlyPortsOfServersWithoutANodeAreLookedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		machine Machine
		after   time.Duration
		due     bool
	}{
		"looks up the port of a server that has been ACTIVE for two minutes without a Node (F-21)": {Machine{UID: "u1"}, DetachedAfter, true},
		"does not look up the port of a server that has been ACTIVE for less than two minutes":     {Machine{UID: "u1"}, DetachedAfter - time.Second, false},
		"does not look up the port of a server with a Node":                                        {Machine{UID: "u1", Joined: true}, time.Hour, false},
		"does not look up the port of a server whose Machine is being deleted":                     {Machine{UID: "u1", Leaving: true}, time.Hour, false},
		"does not look up the port of a server whose Machine drover has not reconciled yet":        {Machine{UID: "u2"}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.list(noon, AddressLists{Ports: []Port{{ID: "a", Description: portTag.String(), DeviceID: "s1"}}}, active("s1", "u1"))
			due, ports := p.Unjoined(noon.Add(tc.after))
			if slices.Contains(due, Unjoined{"u1", "s1"}) != tc.due || slices.Contains(ports, "a") != tc.due {
				t.Errorf("got %v with ports %v, want due: %v", due, ports, tc.due)
			}
		})
	}
}

func TestServerCountsAsFailedWhenItsPortIsNoLongerBoundToIt(t *testing.T) {
	for name, tc := range map[string]struct {
		device   string
		detached bool
	}{
		"a server does not count as failed while its port is bound to it (F-21)":                                     {"s1", false},
		"a server counts as failed, and its port is to be replaced, when the port is bound to no server (F-21)":      {"", true},
		"a server counts as failed, and its port is to be replaced, when the port is bound to another server (F-21)": {"s2", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(Machine{UID: "u1"})
			row := Port{ID: "a", Description: portTag.String(), DeviceID: "s1"}
			p.list(noon, AddressLists{Ports: []Port{row}}, active("s1", "u1"))
			p.AddPort(portTag, Port{ID: "a", DeviceID: "s1"}, noon) // so the port counts as created by this process
			at := noon.Add(DetachedAfter)
			due, _ := p.Unjoined(at)
			row.DeviceID = tc.device
			machines := p.Detach(due, []Port{row}, at)
			if slices.Contains(machines, "u1") != tc.detached || p.Servers.byID["s1"].failed() != tc.detached {
				t.Errorf("detached: %v, failed: %v; want %v", machines, p.Servers.byID["s1"].failed(), tc.detached)
			}
			if got := p.Addresses.Ports("u1")[0].NamedByCreate; got != tc.detached {
				t.Errorf("the port is to be replaced: %v, want %v", got, tc.detached)
			}
			if again, _ := p.Unjoined(at.Add(time.Hour)); len(again) > 0 {
				t.Errorf("the port is looked up again: %v", again)
			}
		})
	}
}

func TestWhenASecondServerOfAMachineIsDeletedAsADuplicate(t *testing.T) {
	m := Machine{UID: "u1", ServerID: "s1", Joined: true}
	for name, tc := range map[string]struct {
		machine Machine
		second  ServerRow
		after   time.Duration
		want    []string
	}{
		"a second server of a Machine is deleted two minutes after drover has first seen it":                              {m, active("s2", "u1"), DuplicateAge, []string{"s2"}},
		"a second server of a Machine stays in the first two minutes after drover has first seen it":                      {m, active("s2", "u1"), DuplicateAge - time.Second, nil},
		"a server stays when its owner tag names another Machine, because it is not a duplicate":                          {m, active("s2", "u2"), time.Hour, nil},
		"a second server stays when the Machine's spec.providerID is empty":                                               {Machine{UID: "u1", Joined: true}, active("s2", "u1"), time.Hour, nil},
		"a second server stays when the Machine's spec.providerID names the server of another Machine (F-1)":              {Machine{UID: "u1", ServerID: "x", Joined: true}, active("s2", "u1"), time.Hour, nil},
		"a second server stays while its Machine is being deleted":                                                        {Machine{UID: "u1", ServerID: "s1", Leaving: true}, active("s2", "u1"), time.Hour, nil},
		"a second server stays while the first server has no Node and the Machine's ports have not been looked up (F-21)": {Machine{UID: "u1", ServerID: "s1"}, active("s2", "u1"), time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			ports := AddressLists{Ports: []Port{{ID: "a", Description: portTag.String(), DeviceID: "s1"}}}
			p.list(noon, ports, active("s1", "u1"), active("x", "u9"), tc.second)
			if got := p.Duplicates(noon.Add(tc.after)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReleaseOfARetainedPort(t *testing.T) {
	idle := func(t *testing.T) (*Project, Retained) {
		t.Helper()
		p := newProject(Machine{UID: "u1"})
		p.SetPort(portTag, Port{ID: "port-1"}, noon)
		return p, Retained{portTag, "port-1"}
	}
	t.Run("the release waits while a server is being created on the port (F-18)", func(t *testing.T) {
		p, port := idle(t)
		err := p.BeginMaking("u1", Amounts{}, noon)
		if err != nil || p.BeginRelease(port) {
			t.Fatalf("the port of a server that is being created is released: %v", err)
		}
		p.EndMaking("u1")
		if !p.BeginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
	})
	t.Run("no server is created on the port while the port is being released (F-18)", func(t *testing.T) {
		p, port := idle(t)
		if !p.BeginRelease(port) {
			t.Fatal("the port of an idle Machine is not released")
		}
		if err := p.BeginMaking("u1", Amounts{}, noon); !fault.Is(err, fault.Transient) {
			t.Errorf("a server is created on a port that is being released: %v", err)
		}
	})
	t.Run("drover forgets the port after a successful release, and not after a failed release (F-18)", func(t *testing.T) {
		p, port := idle(t)
		for _, released := range []bool{false, true} {
			if !p.BeginRelease(port) {
				t.Fatal("the port of an idle Machine is not released")
			}
			p.EndRelease(port, released)
			if _, known := p.Addresses.Ports("u1")[0]; known == released {
				t.Errorf("released %v: the port is known: %v", released, known)
			}
		}
	})
}

func TestWhenAnExhaustedQuotaCausesTheReleaseOfRetainedPortsAndFloatingIPs(t *testing.T) {
	refusal := fault.New(fault.Quota, fault.CodePortQuotaExceeded, "full")
	server := testCluster.Tag(cloud.ResourceServer, "u1", 0)
	ipTag := testCluster.Tag(cloud.ResourceFloatingIP, "u1", 0)
	for name, tc := range map[string]struct {
		machine Machine
		then    func(*Project)
		after   time.Duration
		want    []Retained
	}{
		"ports and floating IPs are released 90 seconds after the quota was exhausted, each floating IP before its port (CAPI-22)": {Machine{UID: "u1"}, nil, RetainedFor, []Retained{{ipTag, "ip"}, {portTag, "port-1"}}},
		"ports and floating IPs stay in the first 90 seconds after the quota was exhausted":                                        {Machine{UID: "u1"}, nil, RetainedFor - time.Second, nil},
		"ports and floating IPs stay while their Machine has a server":                                                             {Machine{UID: "u1"}, func(p *Project) { p.AddServer("u1", "s1", "worker-1", noon) }, time.Hour, nil},
		"ports and floating IPs stay while their Machine's spec.providerID names a server":                                         {Machine{UID: "u1", ServerID: "s1"}, nil, time.Hour, nil},
		"ports and floating IPs stay while it is in doubt whether a server of their Machine was created":                           {Machine{UID: "u1"}, func(p *Project) { p.attempted(server, noon) }, time.Hour, nil},
		"ports and floating IPs stay while a call is creating a resource of their Machine":                                         {Machine{UID: "u1"}, func(p *Project) { _ = p.BeginMaking("u1", Amounts{}, noon) }, time.Hour, nil},
		"ports and floating IPs stay while drover has not yet reconciled their Machine":                                            {Machine{UID: "u2"}, nil, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(tc.machine)
			p.Quotas.refused("other", refusal, Amounts{Ports: 1}, noon)
			p.SetPort(portTag, Port{ID: "port-1"}, noon)
			p.SetFloatingIP(ipTag, FloatingIP{ID: "ip"}, noon)
			if tc.then != nil {
				tc.then(p)
			}
			if got := p.Retained(2, noon.Add(tc.after)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPortsAndFloatingIPsOfAnAdoptedServerGetTheNewOwnerTag(t *testing.T) {
	was := testCluster.Tag(cloud.ResourcePort, "old", 0)
	p := newProject(Machine{UID: "u1", Adopts: "s1"})
	p.SetPort(was, Port{ID: "a", DeviceID: "s1"}, noon)
	p.SetPort(testCluster.Tag(cloud.ResourcePort, "old", 1), Port{ID: "b", DeviceID: "s2"}, noon)
	p.SetFloatingIP(testCluster.Tag(cloud.ResourceFloatingIP, "old", 0), FloatingIP{ID: "ip", PortID: "a"}, noon)
	p.list(noon, AddressLists{}, active("s1", "old"))
	row, ok := p.Adoptee(&Machine{UID: "u1", Adopts: "s1"})
	if !ok || !p.Servers.Adopt("s1", row.Metadata.Machine, "u1") {
		t.Fatalf("the server cannot be adopted: %+v", row)
	}
	due, more := p.Servers.Untagged(9, noon)
	if len(due) != 1 || more || due[0] != (Untagged{ID: "s1", Machine: "u1", Was: "old"}) {
		t.Fatalf("got %v, want the adopted server", due)
	}
	all := p.AdoptedAddresses(due[0])
	if len(all) != 2 || all[0].FloatingIP.ID != "ip" || all[1].Port.ID != "a" {
		t.Fatalf("got %+v, want port a after its floating IP", all)
	}
	for _, a := range all {
		p.Adopted(a, noon)
	}
	if ids := p.Addresses.portIDs("u1"); !slices.Equal(ids, []string{"a"}) {
		t.Errorf("the Machine has ports %v, want a", ids)
	}
	if ip := p.Addresses.floating["u1"]; ip.ID != "ip" || !slices.Equal(p.Addresses.portIDs("old"), []string{"b"}) {
		t.Errorf("the Machine has floating IP %q; the former one has ports %v, want b", ip.ID, p.Addresses.portIDs("old"))
	}
	if again, _ := p.Servers.Untagged(9, noon.Add(time.Minute)); len(again) > 0 {
		t.Errorf("the server is tagged again at once: %v", again)
	}
}
