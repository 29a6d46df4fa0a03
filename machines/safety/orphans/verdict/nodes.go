package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// mostMarks is how many Nodes one round may change by setting or removing the annotation unmanaged.
const mostMarks = 50

// findNodes finds the Nodes with drover's labels whose Machine does not exist any more, and the Nodes that were never
// drover's.
func (j *judgement) findNodes() {
	var found []Orphan
	outlive := 0
	for i := range j.Nodes {
		n := &j.Nodes[i]
		o := Orphan{Kind: KindNode, ID: n.Name, Machine: n.OwnedBy, Node: n}
		switch {
		case j.outlives(n, &o):
			o.block(Outlives)
			o.Expel = !n.Expelled && !j.ReportOnly
			outlive++
			found = append(found, o)
		case j.hasMachine(n):
			j.mark(n, false)
		case n.hasLabels():
			j.judgeNode(n, &o)
			found = append(found, o)
		default:
			j.mark(n, n.ControlPlane == "")
		}
	}
	slices.SortFunc(found, func(a, b Orphan) int { return cmp.Compare(a.ID, b.ID) })
	for i := range found {
		// When so many Nodes outlive their Machines, the cause may be a mistake in what drover has read.
		found[i].Expel = found[i].Expel && outlive <= max(3, len(j.Nodes)/10)
	}
	j.verdict.Orphans = append(j.verdict.Orphans, found...)
}

// hasMachine reports whether the Node belongs, or may belong, to an existing Machine: by the UID or the name in its labels and
// annotations, by its server, or by its own name.
func (j *judgement) hasMachine(n *Node) bool {
	return j.living.uids[n.OwnedBy] || j.living.names[n.Machine] || j.living.servers[n.Server] || j.living.nodes[n.Name]
}

// judgeNode sets why a labeled Node without a Machine is not deleted. Before a Node is deleted, the cloud must also prove that the server is
// gone.
func (j *judgement) judgeNode(n *Node, o *Orphan) {
	j.prove(o, n.owner())
	if named, ok := j.Ends[n.UID]; ok && named.Confirmed {
		// A person has named this Node. The UID of a Machine that it shows proves nothing, because its kubelet chooses it.
		o.End, o.Why, o.Unconfirmed = named, "", false
	}
	switch {
	case n.worked(j.Now, j.Age):
		o.block(fmt.Sprintf("it is Ready, or was within the last %s, so its server works", j.Age))
	case n.ControlPlane != "":
		o.block("it belongs to the control plane, because it has " + n.ControlPlane)
	case n.Server == "":
		o.block("it has no provider ID of a known cloud, so nothing proves that its server is gone")
	case j.servers[n.Server]:
		o.block("its server exists")
	case n.Finalizers:
		o.block("it has finalizers, so another controller must finish first")
	}
}

// mark plans to set or remove the Node's annotation unmanaged, unless the Node is already in the wanted state. It does not set
// the annotation on a young Node, which may still get its Machine.
func (j *judgement) mark(n *Node, set bool) {
	if j.ReportOnly || n.Unmanaged == set || set && j.Now.Sub(n.Created) < j.Age || len(j.verdict.Marks) == mostMarks {
		return
	}
	j.verdict.Marks = append(j.verdict.Marks, NodeMark{n, set})
}

// Outlives is the text in field Why of a Node that outlives its Machine.
const Outlives = "its kubelet reports although its Machine and its server are gone. drover keeps pods away with a taint. If the kubelet goes on, another program has the certificate of the old node: find and end it, then delete the Node"

// outlives reports whether a Node is that of a Machine that is gone, and reports although its server is gone too. A client with the old
// certificate of a Node can register the Node again, and chooses its labels, annotations and provider ID. So these never show that the Node
// has a Machine: only a Machine or a tagged server with the Node's name does. When the Node's name does not show that it was a Machine's,
// the Node must have drover's labels, and outlives sets the end of its Machine in o: the cloud must still prove that the server is gone.
func (j *judgement) outlives(n *Node, o *Orphan) bool {
	switch {
	case !n.Ready || n.LabeledControlPlane || j.living.nodes[n.Name] || j.serverNames[n.Name]:
		return false
	case j.isMachineName(n.Name):
		return j.incomplete() == ""
	case !n.hasLabels() || n.Server == "" || j.hasMachine(n) || j.servers[n.Server]:
		return false
	}
	j.prove(o, n.owner())
	if named, ok := j.Ends[n.UID]; ok && named.Confirmed {
		// A person has named this Node. The UID of a Machine that it shows proves nothing, because its kubelet chooses it.
		o.End, o.Why, o.Unconfirmed = named, "", false
	}
	return o.Why == ""
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
