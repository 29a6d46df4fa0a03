package nodegroup

import (
	"cmp"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// owner is the object that a group is sized by: a MachineDeployment, or, with --bare-machinesets, a MachineSet that belongs to
// none. It is read-only.
type owner struct {
	client.Object
	id string
	// replicas is spec.replicas, last what the deployment controller will put in its place when a writer drops it.
	replicas, last *int32
	// series is the number in the names of placeholders.
	series     *int32
	removals   []v1alpha1.Removal
	template   *v1alpha1.NodeTemplate
	backoffs   []v1alpha1.GroupBackoff
	conditions []metav1.Condition
	// rolls is set when drover itself replaces Machines of an older template.
	rolls bool
}

func deploymentOwner(d *v1alpha1.MachineDeployment) *owner {
	onDelete := d.Spec.Strategy != nil && d.Spec.Strategy.Type == v1alpha1.OnDelete
	return &owner{
		Object: d, id: ID(d.Namespace, d.Name),
		replicas: d.Spec.Replicas, last: d.Status.LastReplicas, series: cmp.Or(d.Spec.PlaceholderSeries, d.Status.LastPlaceholderSeries),
		removals: d.Spec.Removals, template: d.Status.NodeTemplate, backoffs: d.Status.Backoffs,
		conditions: d.Status.Conditions, rolls: !d.Spec.Paused && !onDelete,
	}
}

func setOwner(s *v1alpha1.MachineSet) *owner {
	return &owner{
		Object: s, id: setID(s.Namespace, s.Name),
		replicas: s.Spec.Replicas, series: cmp.Or(s.Spec.PlaceholderSeries, s.Status.LastPlaceholderSeries), removals: s.Spec.Removals,
		template: s.Status.NodeTemplate, backoffs: s.Status.Backoffs, conditions: s.Status.Conditions,
	}
}

// ownerOf reads an object of either kind; it returns nil for any other.
func ownerOf(o client.Object) *owner {
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		return deploymentOwner(o)
	case *v1alpha1.MachineSet:
		return setOwner(o)
	}
	return nil
}

// blank returns an empty object of the owner's kind and name, to read an answer into.
func (o *owner) blank() client.Object {
	meta := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, ok := o.Object.(*v1alpha1.MachineSet); ok {
		return &v1alpha1.MachineSet{ObjectMeta: meta}
	}
	return &v1alpha1.MachineDeployment{ObjectMeta: meta}
}

// key returns the object's namespace and name.
func (o *owner) key() types.NamespacedName { return client.ObjectKeyFromObject(o.Object) }

// kind returns the object's kind for messages.
func (o *owner) kind() string {
	kind, _ := splitID(o.id)
	return kind
}

// placeholderSeries returns the number in the names of placeholders.
func (o *owner) placeholderSeries() int32 {
	if o.series == nil {
		return 0
	}
	return max(0, *o.series)
}

// frozen returns why the group may not grow; empty when it may.
func (o *owner) frozen() string {
	c := apimeta.FindStatusCondition(o.conditions, v1alpha1.ConditionFrozen)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return "it is frozen: " + c.Message
}

// paused reports whether an annotation stops all controllers for the object.
func (o *owner) paused() bool { return v1alpha1.Paused(o.GetAnnotations()) }
