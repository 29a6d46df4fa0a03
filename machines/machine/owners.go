package machine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/scope"
)

// inherited are the annotations of a deployment or set that also apply to its Machines while the Machines wait for something.
var inherited = []string{
	v1alpha1.AnnotationDrainTimeout, v1alpha1.AnnotationVolumeDetachTimeout, v1alpha1.AnnotationJoinTimeout,
	v1alpha1.AnnotationSkipHealth, v1alpha1.AnnotationSkipHealthCAPI, v1alpha1.AnnotationPaused, v1alpha1.AnnotationPausedCAPI,
}

// inheritedPredicate passes updates that change an inherited annotation, so that a Machine that waits for the old deadline
// follows the new deadline immediately.
func inheritedPredicate[O client.Object]() predicate.TypedPredicate[O] {
	return predicate.TypedFuncs[O]{
		CreateFunc: func(event.TypedCreateEvent[O]) bool { return false },
		DeleteFunc: func(event.TypedDeleteEvent[O]) bool { return false },
		UpdateFunc: func(e event.TypedUpdateEvent[O]) bool {
			for _, key := range inherited {
				was, had := e.ObjectOld.GetAnnotations()[key]
				if is, has := e.ObjectNew.GetAnnotations()[key]; is != was || has != had {
					return true
				}
			}
			return false
		},
	}
}

// machinesOfDeployment returns the Machines of the deployment that wait for something.
func (r *Reconciler) machinesOfDeployment(ctx context.Context, d *v1alpha1.MachineDeployment) []reconcile.Request {
	var sets v1alpha1.MachineSetList
	if err := r.control.GetClient().List(ctx, &sets, client.InNamespace(d.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the MachineSets of a MachineDeployment failed", "machineDeployment", klog.KObj(d))
		return nil
	}
	var out []reconcile.Request
	for i := range sets.Items {
		if metav1.IsControlledBy(&sets.Items[i], d) {
			out = append(out, r.machinesOfSet(ctx, &sets.Items[i])...)
		}
	}
	return out
}

// machinesOfSet returns the Machines of the set that wait for something.
func (r *Reconciler) machinesOfSet(ctx context.Context, set *v1alpha1.MachineSet) []reconcile.Request {
	var list v1alpha1.MachineList
	err := r.control.GetClient().List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingFields{scope.IndexMachineSet: string(set.UID)})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the Machines of a MachineSet failed", "machineSet", klog.KObj(set))
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		m := &list.Items[i]
		runs := m.Condition(v1alpha1.ConditionServerReady).Status == corev1.ConditionTrue
		if m.Status.NodeRef == nil || m.DeletionTimestamp != nil || !runs {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		}
	}
	return out
}
