package owner

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestVerdictOnAServer(t *testing.T) {
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
		"is Mine with the Machine's UID and the cluster's ID":                                                    {asked, ServerTags{"s", "x", "u1", "c1"}, Exists, Mine, ""},
		"is Mine with the Machine's UID alone, as for a server of machine-controller":                            {asked, ServerTags{"s", "x", "u1", ""}, Exists, Mine, ""},
		"is Foreign with another cluster's ID, even with the Machine's UID (F-1)":                                {asked, ServerTags{"s", "worker-1", "u1", "c2"}, Exists, Foreign, "another cluster"},
		"is Foreign with another cluster's ID and a permission to adopt (F-1)":                                   {allowed, ServerTags{"s", "worker-1", "u9", "c2"}, ExistsNot, Foreign, "another cluster"},
		"is Foreign without a tag, even when the Machine names it (F-1)":                                         {asked, ServerTags{"s", "worker-1", "", ""}, ExistsNot, Foreign, "no metadata machine-uid"},
		"is Foreign without a tag and with a permission to adopt (F-1)":                                          {allowed, ServerTags{"s", "worker-1", "", "c1"}, ExistsNot, Foreign, "no metadata machine-uid"},
		"is Foreign with another Machine's UID and without a permission (F-1)":                                   {asked, ServerTags{"s", "worker-1", "u9", "c1"}, ExistsNot, Foreign, "Machine with UID u9"},
		"is Adoptable with a permission and the UID of a Machine that does not exist (F-1)":                      {allowed, ServerTags{"s", "worker-1", "u9", "c1"}, ExistsNot, Adoptable, ""},
		"is Adoptable with a permission and without a cluster's ID, as for a server of machine-controller (F-1)": {allowed, ServerTags{"s", "worker-1", "u9", ""}, ExistsNot, Adoptable, ""},
		"is Foreign with a permission while the Machine with its UID exists (F-1)":                               {allowed, ServerTags{"s", "worker-1", "u9", "c1"}, Exists, Foreign, "exists"},
		"is Undecided with a permission until drover knows whether the Machine with its UID exists (F-1)":        {allowed, ServerTags{"s", "worker-1", "u9", "c1"}, ExistenceUnknown, Undecided, "not known"},
		"is Foreign with a permission when its name is not that of the Machine's server (F-1)":                   {allowed, ServerTags{"s", "control-plane-1", "u9", "c1"}, ExistsNot, Foreign, "its name is control-plane-1"},
		"is Foreign with a permission for another server (F-1)":                                                  {allowed, ServerTags{"t", "worker-1", "u9", "c1"}, ExistsNot, Foreign, "Machine with UID u9"},
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

func TestVerdictOnAFloatingIP(t *testing.T) {
	o := Cluster("c1")
	m := &Machine{UID: "u1"}
	tagText := func(cluster string, machine types.UID) string {
		return Tag{FloatingIPKind, cluster, machine, 0}.String()
	}
	for name, tc := range map[string]struct {
		description string
		onOwn       bool
		want        Verdict
	}{
		"is Mine with the Machine's tag":                                                        {tagText("c1", "u1"), false, Mine},
		"is Foreign with another Machine's tag (F-3)":                                           {tagText("c1", "u2"), true, Foreign},
		"is Foreign with another cluster's tag (F-3)":                                           {tagText("c2", "u1"), true, Foreign},
		"is Mine without a tag when it was seen on the Machine's server (F-3)":                  {"", true, Mine},
		"is Mine with a description that is not a tag when it was seen on the Machine's server": {"made by machine-controller", true, Mine},
		"is Foreign without a tag when it was never seen on the Machine's server":               {"", false, Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			if got := o.JudgeAddress(m, FloatingIPKind, tc.description, tc.onOwn); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestVerdictOnTheAbsenceOfAServer(t *testing.T) {
	o := Cluster("c1")
	here, elsewhere := Site{"p1", "east"}, Site{"p2", "east"}
	for name, tc := range map[string]struct {
		recorded Site
		seen     bool
		want     Verdict
		says     []string
	}{
		"proves that a server is gone in its recorded project (F-15)":                                          {here, false, Mine, nil},
		"proves that a server is gone where the server was seen, without a recorded project":                   {Site{}, true, Mine, nil},
		"proves nothing in another project than the recorded one (F-15)":                                       {elsewhere, false, Undecided, []string{"p1", "p2"}},
		"proves nothing in another region than the recorded one (F-15)":                                        {Site{"p1", "west"}, false, Undecided, []string{"east", "west"}},
		"proves nothing without a recorded project (F-15)":                                                     {Site{}, false, Undecided, []string{"no record", "p1"}},
		"proves that a server is gone where the server was seen, even when another project is recorded (F-15)": {elsewhere, true, Mine, nil},
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
