package state

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

func TestOwnerTagIsParsedFromTheDescriptionOfAPort(t *testing.T) {
	m := Tag{cloud.ResourcePort, "c1", "u1", 3}
	if got, ok := parseTag(cloud.ResourcePort, m.String()); !ok || got != m {
		t.Errorf("got %+v", got)
	}
	for _, foreign := range []string{"", "my port", "drover a b", "drover a b c", "other a b 1", "drover a b 1 2"} {
		if _, ok := parseTag(cloud.ResourcePort, foreign); ok {
			t.Errorf("%q is not of this cluster", foreign)
		}
	}
}

func TestOwnershipOfAServer(t *testing.T) {
	o := Cluster("c1")
	asked := &Machine{UID: "u1", ServerName: "worker-1"}
	allowed := &Machine{UID: "u1", ServerName: "worker-1", Adopts: "s"}
	row := func(id, name string, machine types.UID, cluster string) ServerRow {
		return ServerRow{ID: id, Name: name, Metadata: Metadata{Machine: machine, Cluster: cluster}}
	}
	for name, tc := range map[string]struct {
		machine *Machine
		server  ServerRow
		owner   Existence
		// mine is true when the server's tags alone show that it is the Machine's.
		mine, undecided bool
		says            string
	}{
		"is the Machine's when the server has the Machine's UID and the cluster's ID":                                                           {asked, row("s", "x", "u1", "c1"), Exists, true, false, ""},
		"is the Machine's when the server has the Machine's UID and no cluster ID, like servers of Kubermatic's machine-controller":             {asked, row("s", "x", "u1", ""), Exists, true, false, ""},
		"is another owner's when the server has another cluster's ID, even with the Machine's UID (F-1)":                                        {asked, row("s", "worker-1", "u1", "c2"), Exists, false, false, "another cluster"},
		"is another owner's when the server has another cluster's ID, even when an operator permits the adoption (F-1)":                         {allowed, row("s", "worker-1", "u9", "c2"), ExistsNot, false, false, "another cluster"},
		"is another owner's when the server has no Machine's UID, even with the name of the Machine's server (F-1)":                             {asked, row("s", "worker-1", "", ""), ExistsNot, false, false, "no metadata machine-uid"},
		"is another owner's when the server has no Machine's UID, even when an operator permits the adoption (F-1)":                             {allowed, row("s", "worker-1", "", "c1"), ExistsNot, false, false, "no metadata machine-uid"},
		"is another owner's when the server has another Machine's UID and no operator permits the adoption (F-1)":                               {asked, row("s", "worker-1", "u9", "c1"), ExistsNot, false, false, "Machine with UID u9"},
		"is adopted when an operator permits the adoption and the Machine in the server's owner tag does not exist (F-1)":                       {allowed, row("s", "worker-1", "u9", "c1"), ExistsNot, false, false, ""},
		"is adopted when an operator permits it and the server, like machine-controller's, has no cluster ID (F-1)":                             {allowed, row("s", "worker-1", "u9", ""), ExistsNot, false, false, ""},
		"is another owner's while the Machine in the server's owner tag exists, even when an operator permits the adoption (F-1)":               {allowed, row("s", "worker-1", "u9", "c1"), Exists, false, false, "exists"},
		"is undecided when an operator permits the adoption and drover does not know whether the server's Machine exists (F-1)":                 {allowed, row("s", "worker-1", "u9", "c1"), ExistenceUnknown, false, true, "not known"},
		"is another owner's when the server's name is not the name that the Machine requires, even when an operator permits the adoption (F-1)": {allowed, row("s", "control-plane-1", "u9", "c1"), ExistsNot, false, false, "its name is control-plane-1"},
		"is another owner's when the operator permits only the adoption of another server (F-1)":                                                {allowed, row("t", "worker-1", "u9", "c1"), ExistsNot, false, false, "Machine with UID u9"},
	} {
		t.Run(name, func(t *testing.T) {
			reason, undecided := o.WhyForeign(tc.machine, &tc.server, tc.owner)
			if undecided != tc.undecided || !strings.Contains(reason, tc.says) || (tc.says == "") != (reason == "") {
				t.Errorf("got %q, undecided: %v", reason, undecided)
			}
			if owner := o.MachineOf(tc.server.Metadata); (owner == tc.machine.UID) != tc.mine {
				t.Errorf("by its tags it belongs to %q", owner)
			}
		})
	}
}

func TestOwnershipOfAFloatingIP(t *testing.T) {
	m := &Machine{UID: "u1"}
	tagText := func(cluster string, machine types.UID) string {
		return Tag{cloud.ResourceFloatingIP, cluster, machine, 0}.String()
	}
	for name, tc := range map[string]struct {
		description string
		onOwn       bool
		want        bool
	}{
		"is the Machine's when it has the Machine's owner tag":                                              {tagText("c1", "u1"), false, true},
		"is not the Machine's when it has another Machine's owner tag (F-3)":                                {tagText("c1", "u2"), true, false},
		"is not the Machine's when it has another cluster's owner tag (F-3)":                                {tagText("c2", "u1"), true, false},
		"is the Machine's when it has no description and was seen on the Machine's server (F-3)":            {"", true, true},
		"is the Machine's when its description is not an owner tag and it was seen on the Machine's server": {"made by machine-controller", true, true},
		"is not the Machine's when it has no owner tag and was never seen on the Machine's server":          {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, ip := newProject(), FloatingIP{ID: "ip", PortID: "a", Description: tc.description}
			p.list(noon, AddressLists{}, active("s1", "u1"))
			p.Servers.markGone("s1", "u1", noon)
			if tc.onOwn {
				p.Addresses.untagged = map[string]place{"ip": {"a", "s1"}}
			}
			if got := p.OwnsFloatingIP(m, &ip, false); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAnswerThatAProjectDoesNotHaveTheServer(t *testing.T) {
	here, elsewhere := Site{"p1", "east"}, Site{"p2", "east"}
	for name, tc := range map[string]struct {
		recorded Site
		seen     bool
		says     []string
	}{
		"proves that the server is gone when the Machine's status records this project (F-15)":                                            {here, false, nil},
		"proves that the server is gone when a list of this project showed it earlier and the status records no project":                  {Site{}, true, nil},
		"proves nothing when the Machine's status records another project and no list of this project ever showed the server (F-15)":      {elsewhere, false, []string{"p1", "p2"}},
		"proves nothing when the Machine's status records another region and no list of this project ever showed the server (F-15)":       {Site{"p1", "west"}, false, []string{"east", "west"}},
		"proves nothing when the status records no project and no list of this project ever showed the server (F-15)":                     {Site{}, false, []string{"no record", "p1"}},
		"proves that the server is gone when a list of this project showed it earlier, even if the status records another project (F-15)": {elsewhere, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			reason := doubtAbsence(&Machine{Recorded: tc.recorded}, here, tc.seen)
			if (reason == "") != (tc.says == nil) {
				t.Errorf("got %q", reason)
			}
			for _, word := range tc.says {
				if !strings.Contains(reason, word) {
					t.Errorf("the reason does not name %s: %q", word, reason)
				}
			}
		})
	}
}
