package verdict

import (
	"fmt"
	"slices"
	"testing"

	"github.com/drover-project/drover/machines/cloud"
)

// expelled returns the names of the Nodes that are to be tainted.
func expelled(v Verdict) (names []string) {
	for _, o := range v.Orphans {
		if o.Expel {
			names = append(names, o.ID)
		}
	}
	return names
}

func TestWhichNodesAreTaintedBecauseTheyOutliveTheirMachines(t *testing.T) {
	const name = "pool-a-74cf5b9d8b-x2k9p"
	// The Node registered a moment ago with a certificate of a Machine that is gone. Its kubelet claims nothing.
	again := Node{Name: name, UID: "n", Created: noon, Changed: noon, Ready: true}
	marked := nodeOfMachine(20)
	marked.Ready = true
	for what, tc := range map[string]struct {
		node   Node
		change func(n *Node, s *Snapshot)
		want   bool
	}{
		"taints a Ready Node with a name that only a Machine of an existing set had (F-97)": {again, func(_ *Node, s *Snapshot) { s.Deployments = nil }, true},
		"taints a Ready Node whose set is gone and whose deployment exists (F-97)":          {again, func(_ *Node, s *Snapshot) { s.Sets = nil }, true},
		"taints the Node although it claims the UID of an existing Machine (F-97)":          {again, func(n *Node, _ *Snapshot) { n.OwnedBy = number(0) }, true},
		"taints the Node although it claims the name of an existing Machine (F-97)":         {again, func(n *Node, _ *Snapshot) { n.Machine = "kube-system/worker-0" }, true},
		"taints the Node although it claims the server of an existing Machine (F-97)":       {again, func(n *Node, _ *Snapshot) { n.ProviderID, n.Server = "x:///server-0", keyOf(0) }, true},
		"taints the Node although it has registered with a taint of the control plane (F-97)": {again, func(n *Node, _ *Snapshot) {
			n.ControlPlane = "the taint node-role.kubernetes.io/control-plane"
		}, true},
		"taints a Ready Node with drover's labels when the end of its Machine was observed and no server is listed (F-97)": {marked, nil, true},

		"does not taint a Node whose name does not show that it was a Machine's (F-97)": {again, func(n *Node, _ *Snapshot) { n.Name = "pool-a-by-hand" }, false},
		"does not taint a Node named after a group that does not exist (F-97)":          {again, func(_ *Node, s *Snapshot) { s.Sets, s.Deployments = nil, nil }, false},
		"does not taint a Node whose last part of the name drover never makes (F-97)":   {again, func(n *Node, _ *Snapshot) { n.Name = "pool-a-74cf5b9d8b-00001" }, false},
		"does not taint a Node whose Machine exists (F-97)":                             {again, func(_ *Node, s *Snapshot) { s.Machines[0].ServerName = name }, false},
		"does not taint a Node that the status of a Machine names (F-97)":               {again, func(_ *Node, s *Snapshot) { s.Machines[0].NodeName = name }, false},
		"does not taint a Node while a server of this cluster has its name (F-97)":      {again, func(_ *Node, s *Snapshot) { r := serverOf(0); r.Name = name; s.has(r) }, false},
		"does not taint a Node that is not Ready (F-97)":                                {again, func(n *Node, _ *Snapshot) { n.Ready = false }, false},
		"does not taint a Node twice (F-97)":                                            {again, func(n *Node, _ *Snapshot) { n.Expelled = true }, false},
		"does not taint a Node that a label makes part of the control plane (F-97)":     {again, func(n *Node, _ *Snapshot) { n.LabeledControlPlane = true }, false},
		"does not taint a Node while the lists of a project are incomplete (F-97)":      {again, func(_ *Node, s *Snapshot) { s.Projects[0].Unknown = "no list" }, false},
		"does not taint a Node while projects may be unknown (F-97)": {again, func(_ *Node, s *Snapshot) {
			s.Projects = append(s.Projects, cloud.Project{Rest: true, Unknown: "a Machine's project is not known"})
		}, false},
		"does not taint a Node with --orphans=report (F-97)":                                                       {again, func(_ *Node, s *Snapshot) { s.ReportOnly = true }, false},
		"does not taint a Node with drover's labels when nobody has seen its Machine end (F-97)":                   {marked, func(_ *Node, s *Snapshot) { delete(s.Ends, number(20)) }, false},
		"does not taint a Node with drover's labels whose server exists (F-97)":                                    {marked, func(_ *Node, s *Snapshot) { r := serverOf(20); r.Name, r.Machine = "renamed", number(0); s.has(r) }, false},
		"does not taint a Node with drover's labels when its Machine ended before the CRDs were made again (F-97)": {marked, func(_ *Node, s *Snapshot) { s.Defined = noon }, false},
		"does not taint a Node when four Nodes of a small cluster outlive their Machines (F-97)": {again, func(_ *Node, s *Snapshot) {
			for i := range 3 {
				s.Nodes = append(s.Nodes, Node{Name: fmt.Sprintf("pool-a-74cf5b9d8b-x2k9%d", 4+i), Ready: true})
			}
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			s, node := world(10), tc.node
			s.Sets, s.Deployments = []string{"other", "pool-a-74cf5b9d8b"}, []string{"pool-a"}
			if tc.change != nil {
				tc.change(&node, s)
			}
			s.Nodes = append(s.Nodes, node)
			v := Judge(s)
			if got := slices.Contains(expelled(v), node.Name); got != tc.want {
				t.Errorf("taints %v; found %+v, stops %v", expelled(v), v.Orphans, reasons(v))
			}
			if len(deleted(v)) > 0 {
				t.Errorf("deletes %v", deleted(v))
			}
		})
	}
}
