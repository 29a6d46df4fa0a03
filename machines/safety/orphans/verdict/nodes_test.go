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
		"deletes a Node once its Machine and its server are gone (MCM-86)":                                                            {with(func(*Node) {}), []string{"worker-20"}, ""},
		"deletes a Node whose annotation names a Machine that is gone, even when the Node has no label with a Machine's UID (MCM-86)": {with(func(n *Node) { n.OwnedBy = "" }), []string{"worker-20"}, ""},
		"keeps a Node that is younger than 15 minutes (MCM-86)":                                                                       {with(func(n *Node) { n.Created = noon.Add(10 * time.Minute) }), nil, "younger"},
		"keeps a Ready Node (MCM-86)":                                                                         {with(func(n *Node) { n.Ready = true }), nil, "its kubelet reports"},
		"keeps a Node that was Ready less than 15 minutes ago (MCM-86)":                                       {with(func(n *Node) { n.Changed = noon.Add(time.Minute) }), nil, "is Ready, or was"},
		"keeps a Node that is younger than 15 minutes and whose kubelet has not reported yet (MCM-86)":        {with(func(n *Node) { n.Created, n.Changed = noon.Add(time.Minute), time.Time{} }), nil, "is Ready, or was"},
		"deletes a day-old Node whose kubelet never reported (MCM-86)":                                        {with(func(n *Node) { n.Changed = time.Time{} }), []string{"worker-20"}, ""},
		"keeps a Node whose server exists (MCM-86)":                                                           {func(s *Snapshot) { with(func(*Node) {})(s); r := serverOf(20); r.Machine = number(0); s.has(r) }, nil, "its server exists"},
		"keeps a Node whose server this process never saw, such as a Node of another cluster (MCM-86)":        {with(func(n *Node) { n.Server = "other" }), nil, "another cluster's"},
		"when an operator confirms the deletion, deletes a Node whose server this process never saw (MCM-86)": {func(s *Snapshot) { s.Confirmed = true; with(func(n *Node) { n.Server = "other" })(s) }, []string{"worker-20"}, ""},
		"keeps a Node when drover does not list the project of its server any more (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects[0].Place = "another"
		}, nil, "is not known any more"},
		"keeps a Node without a provider ID (MCM-86)": {with(func(n *Node) { n.ProviderID, n.Server = "", "" }), nil, "no provider ID"},
		"keeps a Node when its Machine is gone and drover saw no deletion of the Machine (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.History.Seen[number(20)] = Sighting{}
		}, nil, "has reported no deletion"},
		"keeps a Node with finalizers (MCM-86)":                                                   {with(func(n *Node) { n.Finalizers = true }), nil, "finalizers"},
		"keeps a Node of the control plane (MCM-86)":                                              {with(func(n *Node) { n.ControlPlane = "the label x" }), nil, "control plane"},
		"keeps a Node whose annotation names an existing Machine (MCM-86)":                        {with(func(n *Node) { n.Machine = "kube-system/worker-0" }), nil, ""},
		"keeps a Node whose label has the UID of an existing Machine (MCM-86)":                    {with(func(n *Node) { n.OwnedBy = number(0) }), nil, ""},
		"keeps a Node when an existing Machine has the Node's server in its provider ID (MCM-86)": {with(func(n *Node) { n.Server = keyOf(0) }), nil, ""},
		"keeps a Node when the server of an existing Machine has the Node's name (MCM-86)":        {with(func(n *Node) { n.Name = "worker-0" }), nil, ""},
		"keeps a Node while the lists of its server's project are incomplete (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects[0].Unknown = "no list"
		}, nil, "no list"},
		"keeps a Node while the mass-deletion guard of its server's project holds a server (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects[0].Held = "5 gone"
		}, nil, "5 gone"},
		"deletes a Node although the lists of other projects are incomplete (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects = append(s.Projects, cloud.Project{Place: "t", Unknown: "no list"}, cloud.Project{Place: "u", Held: "5 gone"})
		}, []string{"worker-20"}, ""},
		"keeps a Node whose server is listed in two projects, even if the lists of one of them are incomplete (MCM-86)": {func(s *Snapshot) {
			with(func(n *Node) { n.Server = keyOf(0) })(s)
			s.Machines.All[0].Server = ""
			s.Projects = append(s.Projects, cloud.Project{Place: "t", Unknown: "no list", Resources: []cloud.Resource{serverOf(0)}})
		}, nil, "its server exists"},
		"while one project cannot be listed, keeps a Node whose server this process never saw, despite an operator's confirmation (MCM-86)": {func(s *Snapshot) {
			with(func(n *Node) { n.Server = "other" })(s)
			s.Confirmed, s.Projects = true, append(s.Projects, cloud.Project{Place: "t", Unknown: "no list"})
		}, nil, "no list"},
		"keeps a Node that never belonged to a Machine (MCM-86)": {with(func(n *Node) { n.OwnedBy, n.Machine = "", "" }), nil, ""},
		"deletes none of the Nodes without a Machine when they are more than 3 and more than 10 % of all Nodes (MCM-86)": {func(s *Snapshot) {
			s.Nodes = append(s.Nodes, nodeOfMachine(20), nodeOfMachine(21), nodeOfMachine(22), nodeOfMachine(23))
		}, nil, "4 of 4 nodes with drover's labels whose servers were seen in p have no Machine"},
		"when an operator confirms, deletes Nodes without a Machine even if they are more than 3 and more than 10 % (MCM-86)": {func(s *Snapshot) {
			s.Nodes = append(s.Nodes, nodeOfMachine(20), nodeOfMachine(21), nodeOfMachine(22), nodeOfMachine(23))
			s.Confirmed = true
		}, []string{"worker-20", "worker-21", "worker-22", "worker-23"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := func() *Snapshot { s := world(10); tc.change(s); return s }
			if first, _ := (passes{count: 1, memory: remembers()}).run(fresh); len(deleted(first)) > 0 {
				t.Errorf("the first round deletes %v", deleted(first))
			}
			v, _ := passes{count: 2, memory: remembers()}.run(fresh)
			if got := deleted(v); !slices.Equal(got, tc.want) {
				t.Errorf("deletes %v, want %v", got, tc.want)
			}
			if tc.why != "" && (len(v.Orphans) == 0 || !strings.Contains(v.Orphans[0].Why, tc.why)) {
				t.Errorf("want %q as a reason; found %+v", tc.why, v.Orphans)
			}
		})
	}
}

func TestServersOfNodesAreRecordedForTheOrphanCheck(t *testing.T) {
	_, m := passes{count: 3, memory: remembers(), change: func(pass int, s *Snapshot) {
		if s.Nodes = []Node{nodeOfMachine(20)}; pass == 1 {
			s.Stale = "the API server does not answer"
		}
	}}.run(func() *Snapshot { return world(10) })
	t.Run("records the project of each server that exists or that a Node names, and of no other server (MCM-86)", func(t *testing.T) {
		if _, named := m.Servers[keyOf(20)]; len(m.Servers) != 11 || !named || !slices.Equal(m.Servers[keyOf(0)], []site{own}) {
			t.Errorf("got %v", m.Servers)
		}
	})
}

func TestTheOrphanCheckDeletesANodeWithoutAMachineOnlyAfterTwoRoundsInWhichItWasNotReady(t *testing.T) {
	t.Run("keeps the Node when it was Ready in one of the last two rounds, and deletes it when it was Ready in neither (MCM-86)", func(t *testing.T) {
		for count, want := range map[int][]string{3: nil, 4: {"worker-20"}} {
			v, _ := passes{count: count, memory: remembers(), change: func(pass int, s *Snapshot) {
				n := nodeOfMachine(20)
				if n.Ready = pass == 1; pass > 1 {
					n.Changed = noon.Add(period)
				}
				s.Nodes = []Node{n}
			}}.run(func() *Snapshot { return world(10) })
			if got := deleted(v); !slices.Equal(got, want) {
				t.Errorf("round %d deletes %v", count, got)
			}
		}
	})
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
		"removes the annotation from a Node with a Machine (MCM-86)":                    {with(func(n *Node) { n.Unmanaged = true }), func(s *Snapshot) { s.Machines.All[0].NodeName = "by-hand" }, map[types.UID]bool{"n": false}},
		"annotates no Node while the deletion of orphans is stopped (MCM-80, MCM-86)":   {stranger, func(s *Snapshot) { s.drop(5, false) }, nil},
		"annotates no Node when drover runs with --orphans=report (MCM-86)":             {stranger, func(s *Snapshot) { s.ReportOnly = true }, nil},
		"does not annotate a Node whose name is that of a Machine's server (MCM-86)":    {stranger, func(s *Snapshot) { s.Machines.All[0].ServerName = "by-hand" }, nil},
		"annotates no Node while reads from the API server may be out of date (MCM-80)": {stranger, func(s *Snapshot) { s.Stale = "no lease" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := passes{count: 1, memory: remembers(), change: func(_ int, s *Snapshot) {
				s.Nodes = []Node{tc.node}
				if tc.change != nil {
					tc.change(s)
				}
			}}.run(func() *Snapshot { return world(10) })
			got := map[types.UID]bool{}
			for _, m := range v.Marks {
				got[m.Node.UID] = m.Set
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
