package deployment

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// deployments watches MachineDeployments: it enqueues a deployment when it changes, remembers the entries of its spec.removals and its last
// size, and reports a new writer of its size.
func (r *Reconciler) deployments(c cache.Cache) source.Source {
	named := func(d *v1alpha1.MachineDeployment) []v1alpha1.Removal { return d.Spec.Removals }
	replicas := func(d *v1alpha1.MachineDeployment) *int32 { return d.Spec.Replicas }
	return source.Kind(c, &v1alpha1.MachineDeployment{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.MachineDeployment]{},
		ownership.Remembering(&r.named, named), ownership.ReportingWriters(r.writes.events, replicas))
}

// machineSets watches MachineSets: it enqueues the deployment of a set, or without a controller every deployment that might adopt the set. It
// remembers the entries of the set's spec.rolloutRemovals.
func (r *Reconciler) machineSets(c cache.Cache) source.Source {
	rolled := func(s *v1alpha1.MachineSet) []v1alpha1.Removal { return s.Spec.RolloutRemovals }
	events := ownership.Events[*v1alpha1.MachineSet]{
		Kind: v1alpha1.MachineDeploymentKind.Kind, Gather: gather, Reader: r.client, Owners: &v1alpha1.MachineDeploymentList{}, MadeFor: v1alpha1.IsSetNameOf,
	}
	return source.Kind(c, &v1alpha1.MachineSet{}, events.Handler(), ownership.Remembering(&r.sets.rolled, rolled))
}

// machineEvents enqueues the deployment of a Machine's set.
func (r *Reconciler) machineEvents() handler.TypedEventHandler[*v1alpha1.Machine, ctrl.Request] {
	wake := func(ctx context.Context, m *v1alpha1.Machine, q ownership.Queue) {
		ref := metav1.GetControllerOfNoCopy(m)
		if ref == nil || ref.Kind != v1alpha1.MachineSetKind.Kind {
			return
		}
		var set v1alpha1.MachineSet
		err := r.client.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: ref.Name}, &set)
		if owner := metav1.GetControllerOfNoCopy(&set); err == nil && owner != nil {
			q.AddAfter(ownership.RequestFor(m.Namespace, owner.Name), gather)
		}
	}
	return handler.TypedFuncs[*v1alpha1.Machine, ctrl.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.Machine], q ownership.Queue) {
			wake(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.Machine], q ownership.Queue) {
			wake(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.Machine], q ownership.Queue) {
			wake(ctx, e.Object, q)
		},
	}
}
