package membership

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Kinds are the kinds of objects in an index.
var Kinds = []schema.GroupVersionKind{
	v1alpha1.MachineDeploymentKind, v1alpha1.MachineSetKind, machineKind, NodeKind,
}

// NodeKind is the kind of Nodes, which are in the target cluster.
var NodeKind = corev1.SchemeGroupVersion.WithKind("Node")

var machineKind = v1alpha1.GroupVersion.WithKind("Machine")

// Sample returns one object of each kind, if there is any. Different numbers select different objects. If a Machine names a Node
// that the cache lacks, Sample prefers that Node.
func (ix *Index) Sample(number uint8) map[schema.GroupVersionKind]Object {
	out := map[schema.GroupVersionKind]Object{}
	for _, d := range ix.deployments.from(number) {
		out[v1alpha1.MachineDeploymentKind] = d
		break
	}
	for _, s := range ix.sets.from(number) {
		out[v1alpha1.MachineSetKind] = s
		break
	}
	for _, m := range ix.members.from(number) {
		out[machineKind] = m.Machine
		break
	}
	for _, j := range ix.nodes.from(number) {
		out[NodeKind] = j.node
		break
	}
	for _, m := range ix.members.All {
		if ix.AwaitsNode(m) && m.Machine.DeletionTimestamp.IsZero() {
			out[NodeKind] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Machine.Status.NodeRef.Name}}
			break
		}
	}
	return out
}

// Object returns the index's version of an object; nil when the index does not have the object. It finds a Machine by its UID,
// and any other object by its name.
func (ix *Index) Object(kind schema.GroupVersionKind, of Object) Object {
	switch kind {
	case v1alpha1.MachineDeploymentKind:
		if d := ix.deployments.Get(keyOf(of)); d != nil {
			return d
		}
	case v1alpha1.MachineSetKind:
		if s := ix.sets.Get(keyOf(of)); s != nil {
			return s
		}
	case machineKind:
		if m := ix.Member(of.GetUID()); m != nil {
			return m.Machine
		}
	case NodeKind:
		if n := ix.nodes.Get(of.GetName()).node; n != nil {
			return n
		}
	}
	return nil
}

// Misses reports whether the object that a live read returned is newer than the index's version of it. For Nodes it compares only
// the fields that identify their Machine, because the index does not follow updates of a Node's status.
func (ix *Index) Misses(kind schema.GroupVersionKind, live Object) bool {
	cached := ix.Object(kind, live)
	switch {
	case cached == nil:
		// Sample selects objects that the index has. If such an object is missing now, it was deleted. Only a Node may have been
		// selected because the index lacks it.
		return kind == NodeKind
	case cached.GetUID() != live.GetUID():
		return false
	case kind == NodeKind:
		return v1alpha1.NodeOwner(cached.GetLabels(), cached.GetAnnotations()) != v1alpha1.NodeOwner(live.GetLabels(), live.GetAnnotations()) ||
			cached.GetAnnotations()[v1alpha1.AnnotationNodeMachine] != live.GetAnnotations()[v1alpha1.AnnotationNodeMachine]
	}
	return Newer(live, cached)
}
