package capacity

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// SetupWithManager registers the controller with the manager. The controller runs when specs or annotations change, when a Node of a
// group becomes Ready, and at intervals.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := watching(mgr, "capacity", changed(r, &v1alpha1.MachineDeployment{}), r.nodesReady(r.deploymentOf)).Complete(r); err != nil || !r.bareSets {
		return err
	}
	sets := reconcile.Func(r.reconcileSet)
	return watching(mgr, "capacity-sets", changed(r, &v1alpha1.MachineSet{}), r.nodesReady(r.bareSetOf)).Complete(sets)
}

func watching(mgr manager.Manager, name string, sources ...source.Source) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).Named(name)
	for _, s := range sources {
		b = b.WatchesRawSource(s)
	}
	return b
}

// changed returns a source of the objects of one kind whose spec or annotations have changed.
func changed[T client.Object](r *Reconciler, of T) source.Source {
	return source.Kind(r.control.GetCache(), of, &handler.TypedEnqueueRequestForObject[T]{}, predicate.Or[T](
		predicate.TypedGenerationChangedPredicate[T]{}, predicate.TypedAnnotationChangedPredicate[T]{},
	))
}

// settling is how long drover waits for further Nodes to become Ready, so that it learns from all of them together.
const settling = time.Second

// nodesReady returns a source of the owners of Machines whose Node takes pods, according to the Machines' conditions.
func (r *Reconciler) nodesReady(owner func(context.Context, *v1alpha1.Machine) []reconcile.Request) source.Source {
	return source.Kind(r.control.GetCache(), &v1alpha1.Machine{}, handler.TypedFuncs[*v1alpha1.Machine, reconcile.Request]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.Machine], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if running(e.ObjectOld) || !running(e.ObjectNew) {
				return
			}
			for _, request := range owner(ctx, e.ObjectNew) {
				queue.AddAfter(request, settling)
			}
		},
	})
}

func running(m *v1alpha1.Machine) bool {
	return m.Condition(v1alpha1.ConditionReady).Status == corev1.ConditionTrue
}

func (r *Reconciler) setOf(ctx context.Context, m *v1alpha1.Machine) *v1alpha1.MachineSet {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil {
		return nil
	}
	s := &v1alpha1.MachineSet{}
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: owner.Name}, s); err != nil {
		return nil
	}
	return s
}

func (r *Reconciler) deploymentOf(ctx context.Context, m *v1alpha1.Machine) []reconcile.Request {
	s := r.setOf(ctx, m)
	if s == nil {
		return nil
	}
	if owner := metav1.GetControllerOfNoCopy(s); owner != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: owner.Name}}}
	}
	return nil
}

func (r *Reconciler) bareSetOf(ctx context.Context, m *v1alpha1.Machine) []reconcile.Request {
	s := r.setOf(ctx, m)
	if s == nil || metav1.GetControllerOfNoCopy(s) != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(s)}}
}
