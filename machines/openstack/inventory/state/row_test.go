package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/cloud"
)

func TestOnlyTheBootVolumeIsDeletedWithTheServer(t *testing.T) {
	r := &ServerRow{Volumes: []Volume{{ID: "data"}, {ID: "boot", EndsWithServer: true}}}
	if got := r.endingVolumes(); len(got) != 1 || got[0] != "boot" {
		t.Fatalf("got %v: a volume that Kubernetes attached is never drover's", got)
	}
}

func TestStateAndOperationOfAServer(t *testing.T) {
	for name, tt := range map[string]struct {
		status, task string
		power        int
		state        cloud.ServerState
		busy         string
	}{
		"a server that is shut down has the state Stopped":                                                        {"SHUTOFF", "", 4, cloud.ServerStopped, ""},
		"a server in SHUTOFF whose power state is on has the state Other":                                         {"SHUTOFF", "", 1, cloud.ServerOther, ""},
		"a server in SHUTOFF whose power state is unknown has the state Other":                                    {"SHUTOFF", "", 0, cloud.ServerOther, ""},
		"a server whose task is powering-on has the state Starting":                                               {"SHUTOFF", "powering-on", 4, cloud.ServerStarting, ""},
		"a server in SHUTOFF whose task is image_uploading has the state Other and the operation image_uploading": {"SHUTOFF", "image_uploading", 4, cloud.ServerOther, "image_uploading"},
		"a server that is being deleted has the state Deleting":                                                   {"SHUTOFF", "deleting", 4, cloud.ServerDeleting, ""},
		"a running server has the state Active and no operation":                                                  {"ACTIVE", "", 1, cloud.ServerActive, ""},
		"a server that is shutting down has the state Active and the operation powering-off":                      {"ACTIVE", "powering-off", 1, cloud.ServerActive, "powering-off"},
		"a server that is being built has the state Building and no operation":                                    {"BUILD", "spawning", 0, cloud.ServerBuilding, ""},
		"a server in ERROR has the state Error":                                                                   {"ERROR", "", 1, cloud.ServerError, ""},
		"a paused server has the state Other":                                                                     {"PAUSED", "", 3, cloud.ServerOther, ""},
		"a suspended server has the state Other":                                                                  {"SUSPENDED", "", 4, cloud.ServerOther, ""},
		"a shelved server has the state Other":                                                                    {"SHELVED_OFFLOADED", "", 4, cloud.ServerOther, ""},
		"a server whose cell does not answer has the state Other":                                                 {"UNKNOWN", "", 0, cloud.ServerOther, ""},
		"a server that is being resized has the state Other and the operation RESIZE":                             {"RESIZE", "resize_prep", 1, cloud.ServerOther, "RESIZE"},
		"a server whose resize waits for a confirmation has the state Other and the operation VERIFY_RESIZE":      {"VERIFY_RESIZE", "", 1, cloud.ServerOther, "VERIFY_RESIZE"},
		"a rescued server has the state Other and the operation RESCUE":                                           {"RESCUE", "", 1, cloud.ServerOther, "RESCUE"},
		"a server that is migrating has the state Other and the operation MIGRATING":                              {"MIGRATING", "migrating", 1, cloud.ServerOther, "MIGRATING"},
		"a server that is being rebuilt has the state Other and the operation REBUILD":                            {"REBUILD", "rebuild_spawning", 1, cloud.ServerOther, "REBUILD"},
		"a server that reboots has the state Other and the operation HARD_REBOOT":                                 {"HARD_REBOOT", "rebooting_hard", 1, cloud.ServerOther, "HARD_REBOOT"},
		"a paused server that is being unpaused has the state Other and the operation unpausing":                  {"PAUSED", "unpausing", 3, cloud.ServerOther, "unpausing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &ServerRow{Status: tt.status, TaskState: tt.task, PowerState: tt.power}
			if r.State() != tt.state || r.Busy() != tt.busy {
				t.Errorf("got %s and %q, want %s and %q", r.State(), r.Busy(), tt.state, tt.busy)
			}
		})
	}
}

func TestNodeAddressesOfAServer(t *testing.T) {
	t.Run("include accessIPv4 and accessIPv6 as external addresses", func(t *testing.T) {
		r := &ServerRow{Name: "a", AccessIPv4: "192.0.2.7", AccessIPv6: "2001:db8::7", Addresses: map[string][]Address{"net": {{"10.0.0.1", "fixed"}, {"192.0.2.7", "floating"}}}}
		want := "[{InternalIP 10.0.0.1} {ExternalIP 192.0.2.7} {ExternalIP 2001:db8::7} {ExternalIP 203.0.113.1} {Hostname a}]"
		if got := fmt.Sprint(r.NodeAddresses(nil, "203.0.113.1")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	all := map[string][]Address{
		"b":     {{"10.0.0.9", "fixed"}, {"fd00::9", "fixed"}, {"198.51.100.9", "floating"}},
		"a":     {{"2001:db8::1", "fixed"}, {"10.0.0.1", "fixed"}},
		"other": {{"10.0.0.1", "fixed"}},
	}
	t.Run("are those of all networks and of both families, each with its type, in the same order each time (report 77, report 78, report 79)", func(t *testing.T) {
		const want = "[{InternalIP 10.0.0.1} {InternalIP 10.0.0.5} {InternalIP 10.0.0.9} {InternalIP 2001:db8::1} {InternalIP fd00::9} {ExternalIP 198.51.100.9} {Hostname a}]"
		for range 50 {
			r := &ServerRow{Name: "a", Addresses: maps.Clone(all)}
			if got := fmt.Sprint(r.NodeAddresses([]string{"10.0.0.5", "10.0.0.9"}, "198.51.100.9")); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	})
	t.Run("include the host name in the server's metadata (F-113)", func(t *testing.T) {
		for name, want := range map[string]string{
			"":              "[{Hostname a}]",
			"a":             "[{Hostname a}]",
			"a.example.com": "[{Hostname a} {Hostname a.example.com}]",
		} {
			r := &ServerRow{Name: "a"}
			if err := json.Unmarshal([]byte(`{"metadata":{"hostname":"`+name+`"}}`), r); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.NodeAddresses(nil, "")); got != want {
				t.Errorf("with the host name %q: got %s, want %s", name, got, want)
			}
		}
	})
}

func TestMetadataOfARow(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		metadata string
		want     Metadata
	}{
		"the host name is kept (F-113)":                               {`{"hostname":"a.example.com"}`, Metadata{Hostname: "a.example.com"}},
		"the owner tag is kept, and other metadata are not (F-98)":    {`{"machine-uid":"m","drover-cluster-id":"","other":"x"}`, Metadata{Machine: "m"}},
		"a key in other letters is another key":                       {`{"Machine-UID":"m"}`, Metadata{}},
		"a value that is longer than Nova permits is not kept (F-98)": {`{"machine-uid":"` + long + `","drover-cluster-id":"c"}`, Metadata{Cluster: "c"}},
		"a server without metadata has no owner tag":                  {`{}`, Metadata{}},
		"a server without metadata in the answer has no owner tag":    {`null`, Metadata{}},
	} {
		t.Run(name, func(t *testing.T) {
			var r ServerRow
			if err := json.Unmarshal([]byte(`{"metadata":`+tc.metadata+`}`), &r); err != nil || r.Metadata != tc.want {
				t.Errorf("got %v, %v", r.Metadata, err)
			}
		})
	}
}
