package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

func TestWhichNodesAreDeletedAsOrphans(t *testing.T) {
	with := func(change func(*Node)) func(*Snapshot) {
		return func(s *Snapshot) {
			n := nodeOfMachine(20)
			change(&n)
			s.Nodes = append(s.Nodes, n)
		}
	}
	for name, tc := range map[string]struct {
		change func(s *Snapshot)
		want   []string
		why    string
	}{
		"deletes a Node once its Machine and its server are gone (MCM-86)":                                                  {with(func(*Node) {}), []string{"worker-20"}, ""},
		"keeps a Node whose annotation names a Machine that is gone when the Node does not show the Machine's UID (MCM-86)": {with(func(n *Node) { n.OwnedBy = "" }), nil, "has not seen the end"},
		"keeps a Ready Node (MCM-86)":                                                                  {with(func(n *Node) { n.Ready = true }), nil, "its kubelet reports"},
		"keeps a Node that was Ready less than 15 minutes ago (MCM-86)":                                {with(func(n *Node) { n.Changed = noon.Add(-time.Minute) }), nil, "is Ready, or was"},
		"keeps a Node that is younger than 15 minutes and whose kubelet has not reported yet (MCM-86)": {with(func(n *Node) { n.Created, n.Changed = noon.Add(-time.Minute), time.Time{} }), nil, "is Ready, or was"},
		"deletes a day-old Node whose kubelet never reported (MCM-86)":                                 {with(func(n *Node) { n.Changed = time.Time{} }), []string{"worker-20"}, ""},
		"keeps a Node whose server exists (MCM-86)":                                                    {func(s *Snapshot) { with(func(*Node) {})(s); r := serverOf(20); r.Machine = number(0); s.has(r) }, nil, "its server exists"},
		"keeps a Node whose Machine's end nobody has seen, such as a Node of another cluster (MCM-86)": {func(s *Snapshot) { with(func(*Node) {})(s); delete(s.Ends, number(20)) }, nil, "has not seen the end"},
		"keeps a Node whose Machine ended less than 15 minutes ago (MCM-86)":                           {func(s *Snapshot) { with(func(*Node) {})(s); s.end(20, time.Minute) }, nil, "less than 15m"},
		"keeps a Node without a provider ID (MCM-86)":                                                  {with(func(n *Node) { n.ProviderID, n.Server = "", "" }), nil, "no provider ID"},
		"keeps a Node with finalizers (MCM-86)":                                                        {with(func(n *Node) { n.Finalizers = true }), nil, "finalizers"},
		"keeps a Node of the control plane (MCM-86)":                                                   {with(func(n *Node) { n.ControlPlane = "the label x" }), nil, "control plane"},
		"keeps a Node whose annotation names an existing Machine (MCM-86)":                             {with(func(n *Node) { n.Machine = "kube-system/worker-0" }), nil, ""},
		"keeps a Node whose label has the UID of an existing Machine (MCM-86)":                         {with(func(n *Node) { n.OwnedBy = number(0) }), nil, ""},
		"keeps a Node when an existing Machine has the Node's server in its provider ID (MCM-86)":      {with(func(n *Node) { n.Server = keyOf(0) }), nil, ""},
		"keeps a Node when the server of an existing Machine has the Node's name (MCM-86)":             {with(func(n *Node) { n.Name = "worker-0" }), nil, ""},
		"keeps a Node whose server is listed in one project, even if the lists of another one are incomplete (MCM-86)": {func(s *Snapshot) {
			with(func(n *Node) { n.Server = keyOf(0) })(s)
			s.Machines[0].Server = ""
			s.Projects = append(s.Projects, cloud.Project{Place: "t", Unknown: "no list"})
		}, nil, "its server exists"},
		"keeps a Node that never belonged to a Machine (MCM-86)": {with(func(n *Node) { n.OwnedBy, n.Machine = "", "" }), nil, ""},
		"deletes all Nodes of Machines whose ends were observed, however many they are (MCM-86)": {func(s *Snapshot) {
			s.Nodes = append(s.Nodes, nodeOfMachine(20), nodeOfMachine(21), nodeOfMachine(22), nodeOfMachine(23))
		}, []string{"worker-20", "worker-21", "worker-22", "worker-23"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			tc.change(s)
			v := Judge(s)
			if got := deleted(v); !slices.Equal(got, tc.want) {
				t.Errorf("deletes %v, want %v", got, tc.want)
			}
			if tc.why != "" && (len(v.Orphans) == 0 || !strings.Contains(v.Orphans[0].Why, tc.why)) {
				t.Errorf("want %q as a reason; found %+v", tc.why, v.Orphans)
			}
		})
	}
}

func TestNodesWithoutAMachineAreAnnotatedAsUnmanaged(t *testing.T) {
	stranger := Node{Name: "by-hand", UID: "n", Created: noon.Add(-time.Hour), Ready: true}
	with := func(change func(*Node)) Node { n := stranger; change(&n); return n }
	for name, tc := range map[string]struct {
		node   Node
		change func(s *Snapshot)
		want   map[types.UID]bool
	}{
		"annotates a Node that never belonged to a Machine (MCM-86)":                    {stranger, nil, map[types.UID]bool{"n": true}},
		"does not write the annotation again to a Node that has it (MCM-86)":            {with(func(n *Node) { n.Unmanaged = true }), nil, nil},
		"does not annotate a Node that was created a moment ago (MCM-86)":               {with(func(n *Node) { n.Created = noon }), nil, nil},
		"does not annotate a Node of the control plane (MCM-86)":                        {with(func(n *Node) { n.ControlPlane = "the label x" }), nil, nil},
		"removes the annotation from a Node of the control plane (MCM-86)":              {with(func(n *Node) { n.ControlPlane, n.Unmanaged = "the label x", true }), nil, map[types.UID]bool{"n": false}},
		"removes the annotation from a Node with a Machine (MCM-86)":                    {with(func(n *Node) { n.Unmanaged = true }), func(s *Snapshot) { s.Machines[0].NodeName = "by-hand" }, map[types.UID]bool{"n": false}},
		"annotates no Node when drover runs with --orphans=report (MCM-86)":             {stranger, func(s *Snapshot) { s.ReportOnly = true }, nil},
		"does not annotate a Node whose name is that of a Machine's server (MCM-86)":    {stranger, func(s *Snapshot) { s.Machines[0].ServerName = "by-hand" }, nil},
		"annotates no Node while reads from the API server may be out of date (MCM-80)": {stranger, func(s *Snapshot) { s.Stale = "no lease" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(10)
			s.Nodes = []Node{tc.node}
			if tc.change != nil {
				tc.change(s)
			}
			v := Judge(s)
			got := map[types.UID]bool{}
			for _, m := range v.Marks {
				got[m.UID] = !m.Unmanaged
			}
			if len(got) != len(tc.want) || len(tc.want) == 1 && got["n"] != tc.want["n"] {
				t.Errorf("annotates %v, want %v", got, tc.want)
			}
			if len(deleted(v)) > 0 {
				t.Errorf("deletes %v", deleted(v))
			}
		})
	}
}
