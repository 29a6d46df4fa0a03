package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// mostMarks is how many Nodes one round may change by setting or removing the annotation unmanaged.
const mostMarks = 50

// findNodes finds the Nodes with drover's labels whose Machine does not exist any more, and the Nodes that were never
// drover's.
func (j *judgement) findNodes() {
	j.rememberServers()
	marked := tallies{}
	first := len(j.verdict.Orphans)
	for i := range j.Nodes {
		n := &j.Nodes[i]
		lives := j.hasMachine(n)
		if n.hasLabels() {
			marked.add(j.siteOfNode(n), lives)
		}
		sites, outlives := j.outlives(n)
		switch {
		case outlives:
			j.verdict.Orphans = append(j.verdict.Orphans, Orphan{
				Kind: KindNode, ID: n.Name, Machine: n.OwnedBy, Node: n, sites: sites, Expel: !n.Expelled, Why: Outlives,
			})
		case lives:
			j.mark(n, false)
		case n.hasLabels():
			j.verdict.Orphans = append(j.verdict.Orphans, j.node(n))
		default:
			j.mark(n, n.ControlPlane == "")
		}
	}
	slices.SortFunc(j.verdict.Orphans[first:], func(a, b Orphan) int { return cmp.Compare(a.ID, b.ID) })
	j.countNodes(marked, j.verdict.Orphans[first:])
}

// siteOfNode returns the project in which the server of a Node was seen; empty when the server was not seen.
func (j *judgement) siteOfNode(n *Node) site {
	if sites := j.memory.Servers[n.Server]; len(sites) > 0 {
		return sites[0]
	}
	return site{}
}

// countNodes stops the collection of Nodes when too many Nodes have no Machine. countServers does the same for servers.
func (j *judgement) countNodes(marked tallies, orphans []Orphan) {
	worst, found, everywhere := marked.tooMany()
	if !found || j.Confirmed {
		return
	}
	some, stop := marked[worst], Stop{Reason: TooManyNodes, Project: j.nameOf(worst)}
	where := " whose servers were seen in " + stop.Project
	switch {
	case everywhere:
		some, stop.Project, where = marked.sum(), "", ""
	case worst == site{}:
		where = " whose servers this drover has never seen"
	}
	stop.Message = fmt.Sprintf("%d of %d nodes with drover's labels%s have no Machine", some.lost, some.of, where) + remedy
	j.verdict.Skipped = append(j.verdict.Skipped, stop)
	for i := range orphans {
		o := &orphans[i]
		if o.Why == "" && (everywhere || j.siteOfNode(o.Node) == worst) {
			o.Why, o.Stopped = "it is only reported: "+stop.Message, stop.Reason
		}
	}
}

// exists reports whether a tagged server is known to exist.
func (j *judgement) exists(server cloud.ServerID) bool {
	j.indexServers()
	return j.servers[server]
}

func (j *judgement) indexServers() {
	if j.servers != nil {
		return
	}
	j.servers, j.serverNames = map[cloud.ServerID]bool{}, map[string]bool{}
	for i := range j.Projects {
		for _, r := range j.Projects[i].Resources {
			j.servers[r.Key], j.serverNames[r.Name] = true, true
		}
	}
}

// hasMachine reports whether the Node belongs, or may belong, to an existing Machine: by the UID or the name in its labels and
// annotations, by its server, or by its own name.
func (j *judgement) hasMachine(n *Node) bool {
	return j.lives(n.OwnedBy) || j.living.names[n.Machine] || j.living.servers[n.Server] || j.living.nodes[n.Name]
}

// node returns a labeled Node without a Machine as an orphan.
func (j *judgement) node(n *Node) Orphan {
	o := Orphan{Kind: KindNode, ID: n.Name, Machine: n.OwnedBy, Node: n, sites: j.memory.Servers[n.Server]}
	if n.worked(j.Now, j.Age) {
		// An orphan must have had no Machine in two rounds before it is deleted. This round does not count for this Node, because
		// the Node works.
		o.Why = fmt.Sprintf("it is Ready, or was within the last %s, so its server works", j.Age)
		return o
	}
	early := j.found(o.key(), n.Created)
	unproven := j.unproven(&o)
	switch {
	case n.ControlPlane != "":
		o.Why = "it belongs to the control plane, because it has " + n.ControlPlane
	case n.Server == "":
		o.Why = "it has no provider ID of a known cloud, so nothing proves that its server is gone"
	case j.exists(n.Server):
		o.Why = "its server exists"
	case unproven != "":
		o.Why = "nothing proves that its server is gone: " + unproven
	case n.Finalizers:
		o.Why = "it has finalizers, so another controller must finish first"
	default:
		o.Why = cmp.Or(early, j.vanished(n.OwnedBy))
	}
	return o
}

// rememberServers records the tagged servers. It drops the servers that do not exist any more and that no Node names.
func (j *judgement) rememberServers() {
	seen := j.memory.Servers
	for server := range seen {
		if j.byServer[server] == nil {
			delete(seen, server)
		}
	}
	for i := range j.Projects {
		at := siteOf(&j.Projects[i])
		for _, r := range j.Projects[i].Resources {
			if r.Key != "" && !slices.Contains(seen[r.Key], at) {
				seen[r.Key] = append(slices.Clip(seen[r.Key]), at)
			}
		}
	}
}

// unproven returns why it is not proven that a Node's server is gone; empty when it is proven. The labels of a Node do not
// name the cluster, so the server must have been seen with this cluster's owner tags, in a project that is still listed.
// Other projects do not matter in that case; otherwise one of them, for example a tenant's, could prevent the deletion of all
// Nodes. If the server was never seen, an operator must confirm the deletion, and all projects must be known and must lack
// the server.
func (j *judgement) unproven(o *Orphan) string {
	unknown := func(s site) bool { return j.project(s) == nil }
	lost := slices.IndexFunc(o.sites, unknown)
	switch {
	case lost >= 0 && !j.Confirmed:
		return "its project " + o.sites[lost].String() + " is not known any more" + remedy
	case lost >= 0:
		o.sites = slices.DeleteFunc(slices.Clone(o.sites), unknown)
	case len(o.sites) == 0 && !j.Confirmed:
		return cmp.Or(j.incomplete(), "this drover has never seen it, so it may be another cluster's"+remedy)
	}
	if len(o.sites) == 0 {
		return j.incomplete()
	}
	for _, s := range o.sites {
		if doubt := unfitProject(j.project(s)); doubt.Reason != "" {
			return doubt.Message
		}
	}
	return ""
}

// incomplete returns why the absence of a server from all projects does not prove that the server is gone; empty when it
// does.
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

// mark plans to set or remove the Node's annotation unmanaged, unless the Node is already in the wanted state. It does not set
// the annotation on a young Node, which may still get its Machine.
func (j *judgement) mark(n *Node, set bool) {
	if n.Unmanaged == set || set && j.Now.Sub(n.Created) < j.Age || len(j.verdict.Marks) == mostMarks {
		return
	}
	j.verdict.Marks = append(j.verdict.Marks, NodeMark{n, set})
}

// Outlives is the text in field Why of a Node that outlives its Machine.
const Outlives = "its kubelet reports although its Machine and its server are gone. drover keeps pods away with a taint. If the kubelet goes on, another program has the certificate of the old node: find and end it, then delete the Node"

// outlives reports whether a Node is that of a Machine that is gone, and reports although its server is gone too. A client with the old
// certificate of a Node can register the Node again, and chooses its labels, annotations and provider ID. So these never show that the Node
// has a Machine: only a Machine or a tagged server with the Node's name does. When the Node's name does not show that it was a Machine's,
// the Node must have drover's labels, and its server must be proven gone; sites are the projects in which that server was seen.
func (j *judgement) outlives(n *Node) (sites []site, outlives bool) {
	j.indexServers()
	switch {
	case !n.Ready || n.LabeledControlPlane || j.living.nodes[n.Name] || j.serverNames[n.Name]:
		return nil, false
	case j.isMachineName(n.Name):
		return nil, j.incomplete() == ""
	case !n.hasLabels() || n.Server == "" || j.hasMachine(n) || j.exists(n.Server):
		return nil, false
	}
	sites = j.memory.Servers[n.Server]
	return sites, len(sites) > 0 && j.unproven(&Orphan{sites: sites}) == "" && j.vanished(n.OwnedBy) == ""
}

// isMachineName reports whether a MachineSet or a MachineDeployment that exists gives such names to its Machines. The set of a deployment
// may be gone.
func (j *judgement) isMachineName(name string) bool {
	if !v1alpha1.EndsWithRandom(name) {
		return false
	}
	set := v1alpha1.BaseOf(name)
	return slices.ContainsFunc(j.Sets, func(s string) bool { return v1alpha1.IsMachineNameOf(s, name) }) ||
		v1alpha1.EndsWithHash(set) && slices.ContainsFunc(j.Deployments, func(d string) bool { return v1alpha1.IsSetNameOf(d, set) })
}

// limitExpulsions makes the round taint no Node while a reason prevents the collection of orphans anywhere, and when so many Nodes outlive
// their Machines that the cause may be a mistake in what drover has read.
func (j *judgement) limitExpulsions(stopped bool) {
	outlive := 0
	for i := range j.verdict.Orphans {
		if j.verdict.Orphans[i].Why == Outlives {
			outlive++
		}
	}
	for i := range j.verdict.Orphans {
		if stopped || outlive > mostLosses(len(j.Nodes), serversShare) {
			j.verdict.Orphans[i].Expel = false
		}
	}
}
