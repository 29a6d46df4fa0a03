package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
)

func TestNodesWithoutAMachine(t *testing.T) {
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
		"are deleted once Machine and server are gone (MCM-86)":                               {with(func(*Node) {}), []string{"worker-20"}, ""},
		"by the name in their annotation too (MCM-86)":                                        {with(func(n *Node) { n.OwnedBy = "" }), []string{"worker-20"}, ""},
		"stay while young (MCM-86)":                                                           {with(func(n *Node) { n.Created = noon.Add(10 * time.Minute) }), nil, "younger"},
		"stay while Ready (MCM-86)":                                                           {with(func(n *Node) { n.Ready = true }), nil, "is Ready"},
		"stay when they were Ready a quarter of an hour ago (MCM-86)":                         {with(func(n *Node) { n.Changed = noon.Add(time.Minute) }), nil, "is Ready, or was"},
		"stay when they are young and no kubelet reported (MCM-86)":                           {with(func(n *Node) { n.Created, n.Changed = noon.Add(time.Minute), time.Time{} }), nil, "is Ready, or was"},
		"are deleted when no kubelet ever reported (MCM-86)":                                  {with(func(n *Node) { n.Changed = time.Time{} }), []string{"worker-20"}, ""},
		"stay while their server exists (MCM-86)":                                             {func(s *Snapshot) { with(func(*Node) {})(s); r := serverOf(20); r.Machine = number(0); s.has(r) }, nil, "its server exists"},
		"stay when this process never saw their server, as those of another cluster (MCM-86)": {with(func(n *Node) { n.Server = "other" }), nil, "another cluster's"},
		"an operator may confirm those (MCM-86)":                                              {func(s *Snapshot) { s.Confirmed = true; with(func(n *Node) { n.Server = "other" })(s) }, []string{"worker-20"}, ""},
		"stay when the project of their server is not known any more (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects[0].Place = "another"
		}, nil, "is not known any more"},
		"stay without a provider ID (MCM-86)": {with(func(n *Node) { n.ProviderID, n.Server = "", "" }), nil, "no provider ID"},
		"stay when their Machine vanished and the API server told of no end (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.History.Seen[number(20)] = Sighting{}
		}, nil, "has not told of its end"},
		"stay with finalizers (MCM-86)":                                 {with(func(n *Node) { n.Finalizers = true }), nil, "finalizers"},
		"stay when they are of the control plane (MCM-86)":              {with(func(n *Node) { n.ControlPlane = "the label x" }), nil, "control plane"},
		"stay when a Machine has the name in their annotation (MCM-86)": {with(func(n *Node) { n.Machine = "kube-system/worker-0" }), nil, ""},
		"stay when a Machine has the UID in their label (MCM-86)":       {with(func(n *Node) { n.OwnedBy = number(0) }), nil, ""},
		"stay when a Machine names their server (MCM-86)":               {with(func(n *Node) { n.Server = keyOf(0) }), nil, ""},
		"stay when a Machine's server has their name (MCM-86)":          {with(func(n *Node) { n.Name = "worker-0" }), nil, ""},
		"stay while the project of their server is not completely known (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects[0].Unknown = "no list"
		}, nil, "no list"},
		"stay while the mass-deletion guard of that project holds something (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects[0].Held = "5 gone"
		}, nil, "5 gone"},
		"are deleted whatever is not known of other projects, such as a tenant's (MCM-86)": {func(s *Snapshot) {
			with(func(*Node) {})(s)
			s.Projects = append(s.Projects, cloud.Project{Place: "t", Unknown: "no list"}, cloud.Project{Place: "u", Held: "5 gone"})
		}, []string{"worker-20"}, ""},
		"stay while any project is not completely known in which their server was seen (MCM-86)": {func(s *Snapshot) {
			with(func(n *Node) { n.Server = keyOf(0) })(s)
			s.Machines.All[0].Server = ""
			s.Projects = append(s.Projects, cloud.Project{Place: "t", Unknown: "no list", Resources: []cloud.Resource{serverOf(0)}})
		}, nil, "its server exists"},
		"an operator's confirmation needs all projects to be known for a server that was never seen (MCM-86)": {func(s *Snapshot) {
			with(func(n *Node) { n.Server = "other" })(s)
			s.Confirmed, s.Projects = true, append(s.Projects, cloud.Project{Place: "t", Unknown: "no list"})
		}, nil, "no list"},
		"that never were drover's are not deleted (MCM-86)": {with(func(n *Node) { n.OwnedBy, n.Machine = "", "" }), nil, ""},
		"more than max(3, 10 %) of them are only reported (MCM-86)": {func(s *Snapshot) {
			s.Nodes = append(s.Nodes, nodeOfMachine(20), nodeOfMachine(21), nodeOfMachine(22), nodeOfMachine(23))
		}, nil, "4 of 4 nodes with drover's marks whose servers were seen in p have no Machine"},
		"an operator may confirm that so many are to be deleted (MCM-86)": {func(s *Snapshot) {
			s.Nodes = append(s.Nodes, nodeOfMachine(20), nodeOfMachine(21), nodeOfMachine(22), nodeOfMachine(23))
			s.Confirmed = true
		}, []string{"worker-20", "worker-21", "worker-22", "worker-23"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := func() *Snapshot { s := world(10); tc.change(s); return s }
			if first, _ := (passes{count: 1, memory: remembers()}).run(fresh); len(deleted(first)) > 0 {
				t.Errorf("the first pass deletes %v", deleted(first))
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

func TestServersThatAreRemembered(t *testing.T) {
	_, m := passes{count: 3, memory: remembers(), change: func(pass int, s *Snapshot) {
		if s.Nodes = []Node{nodeOfMachine(20)}; pass == 1 {
			s.Stale = "the API server does not answer"
		}
	}}.run(func() *Snapshot { return world(10) })
	t.Run("are those that exist and those that a Node names (MCM-86)", func(t *testing.T) {
		if _, named := m.Servers[keyOf(20)]; len(m.Servers) != 11 || !named || !slices.Equal(m.Servers[keyOf(0)], []site{own}) {
			t.Errorf("got %v", m.Servers)
		}
	})
}

func TestANodeThatWasReadyInOneOfTwoPasses(t *testing.T) {
	t.Run("stays: both must find it dead (MCM-86)", func(t *testing.T) {
		for count, want := range map[int][]string{3: nil, 4: {"worker-20"}} {
			v, _ := passes{count: count, memory: remembers(), change: func(pass int, s *Snapshot) {
				n := nodeOfMachine(20)
				if n.Ready = pass == 1; pass > 1 {
					n.Changed = noon.Add(period)
				}
				s.Nodes = []Node{n}
			}}.run(func() *Snapshot { return world(10) })
			if got := deleted(v); !slices.Equal(got, want) {
				t.Errorf("in pass %d it deletes %v", count, got)
			}
		}
	})
}

func TestNodesThatNeverWereDrovers(t *testing.T) {
	stranger := Node{Name: "by-hand", UID: "n", Created: noon.Add(-time.Hour), Ready: true}
	with := func(change func(*Node)) Node { n := stranger; change(&n); return n }
	for name, tc := range map[string]struct {
		node   Node
		change func(s *Snapshot)
		want   map[types.UID]bool
	}{
		"are marked as nobody's (MCM-86)":                                {stranger, nil, map[types.UID]bool{"n": true}},
		"are marked once (MCM-86)":                                       {with(func(n *Node) { n.Unmanaged = true }), nil, nil},
		"are not marked while young (MCM-86)":                            {with(func(n *Node) { n.Created = noon }), nil, nil},
		"are not marked when they are of the control plane (MCM-86)":     {with(func(n *Node) { n.ControlPlane = "the label x" }), nil, nil},
		"lose the mark when they become control plane (MCM-86)":          {with(func(n *Node) { n.ControlPlane, n.Unmanaged = "the label x", true }), nil, map[types.UID]bool{"n": false}},
		"lose the mark when a Machine turns up (MCM-86)":                 {with(func(n *Node) { n.Unmanaged = true }), func(s *Snapshot) { s.Machines.All[0].NodeName = "by-hand" }, map[types.UID]bool{"n": false}},
		"are not marked while nothing is collected (MCM-80, MCM-86)":     {stranger, func(s *Snapshot) { s.drop(5, false) }, nil},
		"are not marked by a dry run (MCM-86)":                           {stranger, func(s *Snapshot) { s.ReportOnly = true }, nil},
		"are not marked when a Machine has their name already (MCM-86)":  {stranger, func(s *Snapshot) { s.Machines.All[0].ServerName = "by-hand" }, nil},
		"are not marked while what was read may be out of date (MCM-80)": {stranger, func(s *Snapshot) { s.Stale = "no lease" }, nil},
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
				t.Errorf("marks %v, want %v", got, tc.want)
			}
			if len(deleted(v)) > 0 {
				t.Errorf("deletes %v", deleted(v))
			}
		})
	}
}
