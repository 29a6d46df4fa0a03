package freeze

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// noon is the time at the start of a test.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// defaults are the limits that follow from the defaults of the flags.
var defaults = Limits{Up: 2, Down: 1, Period: time.Minute}

// newDeployment returns a deployment with the given size and a surge of 1. Its controller has observed its spec.
func newDeployment(replicas int32) *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "md", Namespace: "ns", UID: "md", Generation: 1},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: &replicas,
			Strategy: &v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: ptr.To(intstr.FromInt32(1))}},
		},
		Status: v1alpha1.MachineDeploymentStatus{ObservedGeneration: 1},
	}
}

// newSet returns a set with the given size. d is its deployment; a nil d means that the set belongs to no deployment.
func newSet(name string, replicas int32, d *v1alpha1.MachineDeployment) *v1alpha1.MachineSet {
	s := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Generation: 1},
		Spec:       v1alpha1.MachineSetSpec{Replicas: &replicas},
		Status:     v1alpha1.MachineSetStatus{ObservedGeneration: 1},
	}
	if d != nil {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, v1alpha1.MachineDeploymentKind)}
	}
	return s
}

// machinesOf returns n Machines of a set.
func machinesOf(set *v1alpha1.MachineSet, n int) (all []*v1alpha1.Machine) {
	for i := range n {
		name := fmt.Sprintf("%s-%d", set.Name, i)
		all = append(all, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: set.Namespace, UID: types.UID(name), Labels: set.Spec.Template.Metadata.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.MachineSetKind)},
		}})
	}
	return all
}

// objectsOf returns the metadata of Machines.
func objectsOf(machines ...*v1alpha1.Machine) (all []metav1.Object) {
	for _, m := range machines {
		all = append(all, m)
	}
	return all
}

// mark sets the label and the condition of a freeze on an object. The condition has had its status since noon.
func mark(o client.Object, label bool, condition metav1.ConditionStatus, reason string) {
	if label {
		o.SetLabels(map[string]string{v1alpha1.LabelFreeze: v1alpha1.Frozen})
	}
	if condition == "" {
		return
	}
	all := []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: condition, Reason: reason, Message: "so", LastTransitionTime: metav1.NewTime(noon)}}
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		o.Status.Conditions = all
	case *v1alpha1.MachineSet:
		o.Status.Conditions = all
	}
}
