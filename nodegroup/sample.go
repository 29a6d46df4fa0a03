package nodegroup

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// kinds are the kinds of objects that an index is made of.
var kinds = []schema.GroupVersionKind{
	v1alpha1.MachineDeploymentKind, v1alpha1.MachineSetKind, machineKind, nodeKind,
}

var (
	machineKind = v1alpha1.GroupVersion.WithKind("Machine")
	nodeKind    = corev1.SchemeGroupVersion.WithKind("Node")
)

// sample returns one object of each kind that has any; another one for another number. Of Nodes it is one that a Machine
// names and that the watch has not brought, where there is such a one.
func (ix *index) sample(number uint8) map[schema.GroupVersionKind]client.Object {
	out := map[schema.GroupVersionKind]client.Object{}
	if d, ok := ix.deployments.from(number); ok {
		out[v1alpha1.MachineDeploymentKind] = d
	}
	if s, ok := ix.sets.from(number); ok {
		out[v1alpha1.MachineSetKind] = s
	}
	if m, ok := ix.members.from(number); ok {
		out[machineKind] = m.machine
	}
	if j, ok := ix.nodes.from(number); ok {
		out[nodeKind] = j.node
	}
	for _, m := range ix.members.all {
		if ix.awaitsNode(m) && m.machine.DeletionTimestamp.IsZero() {
			out[nodeKind] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.machine.Status.NodeRef.Name}}
			break
		}
	}
	return out
}

// object returns the version of an object that the index has; nil for none. A Machine is found by its UID, any other object
// by its name.
func (ix *index) object(kind schema.GroupVersionKind, of client.Object) client.Object {
	switch kind {
	case v1alpha1.MachineDeploymentKind:
		if d := ix.deployments.get(keyOf(of)); d != nil {
			return d
		}
	case v1alpha1.MachineSetKind:
		if s := ix.sets.get(keyOf(of)); s != nil {
			return s
		}
	case machineKind:
		if m := ix.member(of.GetUID()); m != nil {
			return m.machine
		}
	case nodeKind:
		if n := ix.nodes.get(of.GetName()).node; n != nil {
			return n
		}
	}
	return nil
}

// misses reports whether the index has an older version of an object than a live read has shown. Of Nodes only what names
// their Machine is compared: updates of their status are not followed.
func (ix *index) misses(kind schema.GroupVersionKind, live client.Object) bool {
	cached := ix.object(kind, live)
	switch {
	case cached == nil:
		// An object that was in the cache and is there no more has been deleted. A Node that was looked for because the
		// cache does not have it has not.
		return kind == nodeKind
	case cached.GetUID() != live.GetUID():
		return false
	case kind == nodeKind:
		return cached.GetLabels()[v1alpha1.LabelOwnedBy] != live.GetLabels()[v1alpha1.LabelOwnedBy] ||
			cached.GetAnnotations()[v1alpha1.AnnotationNodeMachine] != live.GetAnnotations()[v1alpha1.AnnotationNodeMachine]
	}
	return newer(live, cached)
}
