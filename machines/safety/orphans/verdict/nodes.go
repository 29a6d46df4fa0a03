package verdict

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// mostMarks is how many Nodes one round may change by setting or removing the annotation unmanaged.
const mostMarks = 50

// findNode judges a Node with drover's labels whose Machine does not exist any more, and a Node that was never drover's.
func (j *judgement) findNode(n *Node) {
	o := Orphan{Resource: cloud.Resource{Kind: KindNode, ID: n.Name, Machine: n.OwnedBy}, Node: n}
	switch {
	case j.outlives(&o):
		o.block(Outlives)
		o.Expel = !n.Expelled && !j.ReportOnly
		j.outlive++
	case j.hasMachine(n):
		j.mark(n, false)
		return
	case !n.hasLabels():
		j.mark(n, n.ControlPlane == "")
		return
	default:
		j.judgeNode(&o)
	}
	j.Orphans = append(j.Orphans, o)
}

// hasMachine reports whether the Node belongs, or may belong, to an existing Machine: by the UID or the name in its labels and
// annotations, by its server, or by its own name.
func (j *judgement) hasMachine(n *Node) bool {
	return j.living[n.OwnedBy] || j.living[n.Machine] || j.living[n.Server] || j.living[n.Name]
}

// judgeNode sets why a labeled Node without a Machine is not deleted. Before a Node is deleted, the cloud must also prove that the server is
// gone.
func (j *judgement) judgeNode(o *Orphan) {
	n := o.Node
	j.prove(o)
	switch {
	case n.worked(j.Now, j.Age):
		o.block(fmt.Sprintf("it is Ready, or was within the last %s, so its server works", j.Age))
	case n.ControlPlane != "":
		o.block("it belongs to the control plane, because it has " + n.ControlPlane)
	case n.Server == "":
		o.block("it has no provider ID of a known cloud, so nothing proves that its server is gone")
	case j.listed[n.Server]:
		o.block("its server exists")
	case n.Finalizers:
		o.block("it has finalizers, so another controller must finish first")
	}
}

// mark plans to set or remove the Node's annotation unmanaged, unless the Node is already in the wanted state. It does not set
// the annotation on a young Node, which may still get its Machine.
func (j *judgement) mark(n *Node, set bool) {
	if j.ReportOnly || n.Unmanaged == set || set && j.Now.Sub(n.Created) < j.Age || len(j.Marks) == mostMarks {
		return
	}
	j.Marks = append(j.Marks, n)
}

// Outlives is the text in field Why of a Node that outlives its Machine.
const Outlives = "its kubelet reports although its Machine and its server are gone. drover keeps pods away with a taint. If the kubelet goes on, another program has the certificate of the old node: find and end it, then delete the Node"

// outlives reports whether a Node is that of a Machine that is gone, and reports although its server is gone too. A client with the old
// certificate of a Node can register the Node again, and chooses its labels, annotations and provider ID. So these never show that the Node
// has a Machine: only a Machine or a tagged server with the Node's name does. When the Node's name does not show that it was a Machine's,
// the Node must have drover's labels, and outlives sets the end of its Machine in o: the cloud must still prove that the server is gone.
func (j *judgement) outlives(o *Orphan) bool {
	n := o.Node
	switch {
	case !n.Ready || n.LabeledControlPlane || j.living[n.Name] || j.listed[n.Name]:
		return false
	case j.isMachineName(n.Name):
		return j.complete()
	case !n.hasLabels() || n.Server == "" || j.hasMachine(n) || j.listed[n.Server]:
		return false
	}
	j.prove(o)
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
