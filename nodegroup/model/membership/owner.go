package membership

import (
	"cmp"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Owner is the object that holds a group's size: a MachineDeployment or, with --features=bare-machinesets, a MachineSet without a
// deployment. It is read-only.
type Owner struct {
	Object
	ID string
	// Replicas is spec.replicas. Last is the size that the deployment controller restores when a client drops spec.replicas.
	Replicas, Last *int32
	// Restoring is true when a client has dropped spec.replicas and Last may be older than the size that was dropped: the deployment
	// controller has not recorded the version before the drop in the status. Only that controller then knows the last size.
	Restoring bool
	// series is the number in the names of the group's placeholders.
	series     *int32
	Removals   []v1alpha1.Removal
	Template   *v1alpha1.NodeTemplate
	Backoffs   []v1alpha1.GroupBackoff
	conditions []metav1.Condition
	// Rolls is true when drover itself replaces Machines of an older template.
	Rolls bool
}

func deploymentOwner(d *v1alpha1.MachineDeployment) *Owner {
	onDelete := d.Spec.Strategy != nil && d.Spec.Strategy.Type == v1alpha1.OnDelete
	return &Owner{
		Object: d, ID: ID(d.Namespace, d.Name),
		Replicas: d.Spec.Replicas, Last: d.Status.LastReplicas, series: cmp.Or(d.Spec.PlaceholderSeries, d.Status.LastPlaceholderSeries),
		Removals: d.Spec.Removals, Template: d.Status.NodeTemplate, Backoffs: d.Status.Backoffs,
		conditions: d.Status.Conditions, Rolls: !d.Spec.Paused && !onDelete,
		Restoring: d.Spec.Replicas == nil && d.Status.ObservedGeneration < d.Generation-1,
	}
}

func setOwner(s *v1alpha1.MachineSet) *Owner {
	return &Owner{
		Object: s, ID: setID(s.Namespace, s.Name),
		Replicas: s.Spec.Replicas, series: cmp.Or(s.Spec.PlaceholderSeries, s.Status.LastPlaceholderSeries), Removals: s.Spec.Removals,
		Template: s.Status.NodeTemplate, Backoffs: s.Status.Backoffs, conditions: s.Status.Conditions,
	}
}

// OwnerOf returns the owner for an object of either kind, and nil for an object of any other kind.
func OwnerOf(o Object) *Owner {
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		return deploymentOwner(o)
	case *v1alpha1.MachineSet:
		return setOwner(o)
	}
	return nil
}

// Blank returns an object of the owner's kind with only its namespace and name. A client decodes an answer of the API server into
// it.
func (o *Owner) Blank() Object {
	meta := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}
	if _, ok := o.Object.(*v1alpha1.MachineSet); ok {
		return &v1alpha1.MachineSet{ObjectMeta: meta}
	}
	return &v1alpha1.MachineDeployment{ObjectMeta: meta}
}

// Key returns the object's namespace and name.
func (o *Owner) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Kind returns the object's kind for messages.
func (o *Owner) Kind() string {
	kind, _ := splitID(o.ID)
	return kind
}

// PlaceholderSeries returns the number in the names of the group's placeholders.
func (o *Owner) PlaceholderSeries() int32 {
	if o.series == nil {
		return 0
	}
	return max(0, *o.series)
}

// Frozen returns the reason why the group may not grow; empty when it may grow.
func (o *Owner) Frozen() string {
	c := apimeta.FindStatusCondition(o.conditions, v1alpha1.ConditionFrozen)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return "it is frozen: " + c.Message
}

// Paused reports whether an annotation pauses all controllers for the object.
func (o *Owner) Paused() bool { return v1alpha1.Paused(o.GetAnnotations()) }
