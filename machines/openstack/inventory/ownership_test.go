package inventory

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestOwnershipOfAServer(t *testing.T) {
	o := ownership{cluster: "c1"}
	asked := &Machine{UID: "u1", ServerName: "worker-1"}
	allowed := &Machine{UID: "u1", ServerName: "worker-1", Adopts: "s"}
	for name, tc := range map[string]struct {
		machine *Machine
		server  serverTags
		owner   existence
		want    verdict
		says    string
	}{
		"with the Machine's UID and the cluster's ID it is the Machine's":            {asked, serverTags{"s", "x", "u1", "c1"}, exists, mine, ""},
		"with the Machine's UID alone, as machine-controller's, it is the Machine's": {asked, serverTags{"s", "x", "u1", ""}, exists, mine, ""},
		"with another cluster's ID it never is, also with the Machine's UID (F-1)":   {asked, serverTags{"s", "worker-1", "u1", "c2"}, exists, foreign, "another cluster"},
		"with another cluster's ID it cannot be adopted (F-1)":                       {allowed, serverTags{"s", "worker-1", "u9", "c2"}, existsNot, foreign, "another cluster"},
		"without a mark it is not, though the Machine names it (F-1)":                {asked, serverTags{"s", "worker-1", "", ""}, existsNot, foreign, "no metadata machine-uid"},
		"without a mark it cannot be adopted (F-1)":                                  {allowed, serverTags{"s", "worker-1", "", "c1"}, existsNot, foreign, "no metadata machine-uid"},
		"with another UID it is not, whether that Machine exists or not (F-1)":       {asked, serverTags{"s", "worker-1", "u9", "c1"}, existsNot, foreign, "Machine with UID u9"},
		"with the permission and a UID that nobody has it can be adopted (F-1)":      {allowed, serverTags{"s", "worker-1", "u9", "c1"}, existsNot, adoptable, ""},
		"machine-controller's can be adopted so too (F-1)":                           {allowed, serverTags{"s", "worker-1", "u9", ""}, existsNot, adoptable, ""},
		"not while the Machine of that UID exists (F-1)":                             {allowed, serverTags{"s", "worker-1", "u9", "c1"}, exists, foreign, "exists"},
		"not before it is known whether it exists (F-1)":                             {allowed, serverTags{"s", "worker-1", "u9", "c1"}, existenceUnknown, undecided, "not known"},
		"not under another name (F-1)":                                               {allowed, serverTags{"s", "control-plane-1", "u9", "c1"}, existsNot, foreign, "its name is control-plane-1"},
		"not when the permission is for another server (F-1)":                        {allowed, serverTags{"t", "worker-1", "u9", "c1"}, existsNot, foreign, "Machine with UID u9"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := o.server(tc.machine, tc.server, tc.owner)
			if got != tc.want || !strings.Contains(reason, tc.says) || (tc.says == "") != (reason == "") {
				t.Errorf("got %s, %q", got, reason)
			}
			if owner := o.machine(tc.server); (owner == tc.machine.UID) != (tc.want == mine) {
				t.Errorf("by its tags it belongs to %q", owner)
			}
		})
	}
}

func TestOwnershipOfAnAddress(t *testing.T) {
	o := ownership{cluster: "c1"}
	m := &Machine{UID: "u1"}
	mark := func(cluster string, machine types.UID) string {
		return OwnerTag{FloatingIPKind, cluster, machine, 0}.String()
	}
	for name, tc := range map[string]struct {
		description string
		onOwn       bool
		want        verdict
	}{
		"with the Machine's mark":                             {mark("c1", "u1"), false, mine},
		"with another Machine's mark (F-3)":                   {mark("c1", "u2"), true, foreign},
		"with another cluster's mark (F-3)":                   {mark("c2", "u1"), true, foreign},
		"without a mark, seen on the Machine's server (F-3)":  {"", true, mine},
		"with somebody's text, seen on the Machine's server":  {"made by machine-controller", true, mine},
		"without a mark, never seen on the Machine's server ": {"", false, foreign},
	} {
		t.Run(name, func(t *testing.T) {
			if got := o.address(m, FloatingIPKind, tc.description, tc.onOwn); got != tc.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestWhatAnAbsenceProves(t *testing.T) {
	o := ownership{cluster: "c1"}
	here, elsewhere := Site{"p1", "east"}, Site{"p2", "east"}
	for name, tc := range map[string]struct {
		recorded Site
		seen     bool
		want     verdict
		says     []string
	}{
		"where the record says the server was made, it is gone (F-15)":     {here, false, mine, nil},
		"where the server was seen with the Machine's mark, it is gone":    {Site{}, true, mine, nil},
		"in another project nothing is known (F-15)":                       {elsewhere, false, undecided, []string{"p1", "p2"}},
		"in another region nothing is known (F-15)":                        {Site{"p1", "west"}, false, undecided, []string{"east", "west"}},
		"without a record nothing is known (F-15)":                         {Site{}, false, undecided, []string{"no record", "p1"}},
		"a server that was seen here is gone, whatever is recorded (F-15)": {elsewhere, true, mine, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := o.absence(&Machine{Recorded: tc.recorded}, here, tc.seen)
			if got != tc.want {
				t.Errorf("got %s, %q", got, reason)
			}
			for _, word := range tc.says {
				if !strings.Contains(reason, word) {
					t.Errorf("the reason does not name %s: %q", word, reason)
				}
			}
		})
	}
}
