package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/cloud"
)

// mostMarks is how many Nodes one pass marks as nobody's, or unmarks.
const mostMarks = 50

// findNodes finds the Nodes with drover's marks whose Machine does not exist any more, and those that were never drover's.
func (j *judgement) findNodes() {
	j.rememberServers()
	marked, ownerless := 0, 0
	first := len(j.verdict.Orphans)
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if n.isMarked() {
			marked++
		}
		switch {
		case j.hasMachine(n):
			j.mark(n, false)
		case n.isMarked():
			ownerless++
			j.verdict.Orphans = append(j.verdict.Orphans, j.node(n))
		default:
			j.mark(n, n.ControlPlane == "")
		}
	}
	slices.SortFunc(j.verdict.Orphans[first:], func(a, b Orphan) int { return cmp.Compare(a.ID, b.ID) })
	if tooMany(ownerless, marked, serversShare) && !j.Confirmed {
		stop := Stop{TooManyNodes, fmt.Sprintf("%d of %d nodes with drover's marks have no Machine", ownerless, marked) + remedy}
		j.verdict.Skipped = append(j.verdict.Skipped, stop)
		for i := first; i < len(j.verdict.Orphans); i++ {
			o := &j.verdict.Orphans[i]
			if o.Why == "" {
				o.Why, o.Stopped = "only reported: "+stop.Message, stop.Reason
			}
		}
	}
}

// exists reports whether a marked server exists as far as is known.
func (j *judgement) exists(server cloud.ServerID) bool {
	if j.servers == nil {
		j.servers = map[cloud.ServerID]bool{}
		for i := range j.Projects {
			for k := range j.Projects[i].Resources {
				j.servers[j.Projects[i].Resources[k].Key] = true
			}
		}
	}
	return j.servers[server]
}

// hasMachine reports whether the Node belongs to a Machine that exists, or may: by the UID or the name in its marks, by its server,
// or by its own name.
func (j *judgement) hasMachine(n *Node) bool {
	return j.lives(n.OwnedBy) || j.living.names[n.Machine] || j.living.servers[n.Server] || j.living.nodes[n.Name]
}

// node returns a marked Node without a Machine as an orphan.
func (j *judgement) node(n *Node) Orphan {
	o := Orphan{Kind: KindNode, ID: n.Name, Machine: n.OwnedBy, Node: n}
	if n.worked(j.Now, j.Age) {
		// Only passes in which it does not work count as looks.
		o.Why = fmt.Sprintf("is Ready, or was within the last %s, so its server works", j.Age)
		return o
	}
	early := j.found(o.key(), n.Created)
	switch {
	case n.ControlPlane != "":
		o.Why = "belongs to the control plane: it has " + n.ControlPlane
	case n.Server == "":
		o.Why = "has no provider ID of a known cloud, so nothing proves that its server is gone"
	case j.exists(n.Server):
		o.Why = "its server exists"
	case j.unproven(n) != "":
		o.Why = "nothing proves that its server is gone: " + j.unproven(n)
	case n.Finalizers:
		o.Why = "has finalizers: somebody waits for its end"
	default:
		o.Why = early
	}
	return o
}

// rememberServers adds the marked servers to those that were seen, and drops those that neither exist nor have a Node.
func (j *judgement) rememberServers() {
	seen := j.memory.Servers
	for server := range seen {
		if j.byServer[server] == nil {
			delete(seen, server)
		}
	}
	for i := range j.Projects {
		for _, r := range j.Projects[i].Resources {
			if r.Key != "" {
				seen[r.Key] = j.Projects[i].Name
			}
		}
	}
}

// unproven returns why the absence of a Node's server proves nothing; empty when it does. The marks of Nodes do not name the cluster, so
// the server must have been seen with the marks of this one, in a project that is still looked at.
func (j *judgement) unproven(n *Node) string {
	project, seen := j.memory.Servers[n.Server]
	switch doubt := j.incomplete(); {
	case doubt != "":
		return doubt
	case j.Confirmed:
	case !seen:
		return "this drover has never seen it, so it may be another cluster's" + remedy
	case !slices.ContainsFunc(j.Projects, func(p cloud.Project) bool { return p.Name == project }):
		return "its project " + project + " is not known any more" + remedy
	}
	return ""
}

// incomplete returns why the absence of a server proves nothing; empty when it does.
func (j *judgement) incomplete() string {
	if len(j.Projects) == 0 {
		return "no project is known"
	}
	for i := range j.Projects {
		if doubt := cmp.Or(j.Projects[i].Unknown, j.Projects[i].Held); doubt != "" {
			return doubt
		}
	}
	return ""
}

// mark has the Node's mark as nobody's set or removed, when that is a change. A young Node may still get its Machine.
func (j *judgement) mark(n *Node, set bool) {
	if n.Unmanaged == set || set && j.Now.Sub(n.Created) < j.Age || len(j.verdict.Marks) == mostMarks {
		return
	}
	j.verdict.Marks = append(j.verdict.Marks, NodeMark{n, set})
}
