package owner

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestOwnershipOfAServer(t *testing.T) {
	o := Cluster("c1")
	asked := &Machine{UID: "u1", ServerName: "worker-1"}
	allowed := &Machine{UID: "u1", ServerName: "worker-1", Adopts: "s"}
	for name, tc := range map[string]struct {
		machine *Machine
		server  ServerTags
		owner   Existence
		want    Verdict
		says    string
	}{
		"with the Machine's UID and the cluster's ID it is the Machine's":            {asked, ServerTags{"s", "x", "u1", "c1"}, Exists, Mine, ""},
		"with the Machine's UID alone, as machine-controller's, it is the Machine's": {asked, ServerTags{"s", "x", "u1", ""}, Exists, Mine, ""},
		"with another cluster's ID it never is, also with the Machine's UID (F-1)":   {asked, ServerTags{"s", "worker-1", "u1", "c2"}, Exists, Foreign, "another cluster"},
		"with another cluster's ID it cannot be adopted (F-1)":                       {allowed, ServerTags{"s", "worker-1", "u9", "c2"}, ExistsNot, Foreign, "another cluster"},
		"without a mark it is not, though the Machine names it (F-1)":                {asked, ServerTags{"s", "worker-1", "", ""}, ExistsNot, Foreign, "no metadata machine-uid"},
		"without a mark it cannot be adopted (F-1)":                                  {allowed, ServerTags{"s", "worker-1", "", "c1"}, ExistsNot, Foreign, "no metadata machine-uid"},
		"with another UID it is not, whether that Machine exists or not (F-1)":       {asked, ServerTags{"s", "worker-1", "u9", "c1"}, ExistsNot, Foreign, "Machine with UID u9"},
		"with the permission and a UID that nobody has it can be adopted (F-1)":      {allowed, ServerTags{"s", "worker-1", "u9", "c1"}, ExistsNot, Adoptable, ""},
		"machine-controller's can be adopted so too (F-1)":                           {allowed, ServerTags{"s", "worker-1", "u9", ""}, ExistsNot, Adoptable, ""},
		"not while the Machine of that UID exists (F-1)":                             {allowed, ServerTags{"s", "worker-1", "u9", "c1"}, Exists, Foreign, "exists"},
		"not before it is known whether it exists (F-1)":                             {allowed, ServerTags{"s", "worker-1", "u9", "c1"}, ExistenceUnknown, Undecided, "not known"},
		"not under another name (F-1)":                                               {allowed, ServerTags{"s", "control-plane-1", "u9", "c1"}, ExistsNot, Foreign, "its name is control-plane-1"},
		"not when the permission is for another server (F-1)":                        {allowed, ServerTags{"t", "worker-1", "u9", "c1"}, ExistsNot, Foreign, "Machine with UID u9"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := o.JudgeServer(tc.machine, tc.server, tc.owner)
			if got != tc.want || !strings.Contains(reason, tc.says) || (tc.says == "") != (reason == "") {
				t.Errorf("got %s, %q", got, reason)
			}
			if owner := o.MachineOf(tc.server); (owner == tc.machine.UID) != (tc.want == Mine) {
				t.Errorf("by its tags it belongs to %q", owner)
			}
		})
	}
}

func TestOwnershipOfAnAddress(t *testing.T) {
	o := Cluster("c1")
	m := &Machine{UID: "u1"}
	mark := func(cluster string, machine types.UID) string {
		return Tag{FloatingIPKind, cluster, machine, 0}.String()
	}
	for name, tc := range map[string]struct {
		description string
		onOwn       bool
		want        Verdict
	}{
		"with the Machine's mark":                             {mark("c1", "u1"), false, Mine},
		"with another Machine's mark (F-3)":                   {mark("c1", "u2"), true, Foreign},
		"with another cluster's mark (F-3)":                   {mark("c2", "u1"), true, Foreign},
		"without a mark, seen on the Machine's server (F-3)":  {"", true, Mine},
		"with somebody's text, seen on the Machine's server":  {"made by machine-controller", true, Mine},
		"without a mark, never seen on the Machine's server ": {"", false, Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			if got := o.JudgeAddress(m, FloatingIPKind, tc.description, tc.onOwn); got != tc.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestWhatAnAbsenceProves(t *testing.T) {
	o := Cluster("c1")
	here, elsewhere := Site{"p1", "east"}, Site{"p2", "east"}
	for name, tc := range map[string]struct {
		recorded Site
		seen     bool
		want     Verdict
		says     []string
	}{
		"where the record says the server was made, it is gone (F-15)":     {here, false, Mine, nil},
		"where the server was seen with the Machine's mark, it is gone":    {Site{}, true, Mine, nil},
		"in another project nothing is known (F-15)":                       {elsewhere, false, Undecided, []string{"p1", "p2"}},
		"in another region nothing is known (F-15)":                        {Site{"p1", "west"}, false, Undecided, []string{"east", "west"}},
		"without a record nothing is known (F-15)":                         {Site{}, false, Undecided, []string{"no record", "p1"}},
		"a server that was seen here is gone, whatever is recorded (F-15)": {elsewhere, true, Mine, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := o.JudgeAbsence(&Machine{Recorded: tc.recorded}, here, tc.seen)
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
