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
	if err := watching(mgr, "capacity", changed(r, &v1alpha1.MachineDeployment{}), r.nodesReady(false)).Complete(r); err != nil || !r.BareSets {
		return err
	}
	sets := reconcile.Func(r.reconcileSet)
	return watching(mgr, "capacity-sets", changed(r, &v1alpha1.MachineSet{}), r.nodesReady(true)).Complete(sets)
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
	return source.Kind(r.Control.GetCache(), of, &handler.TypedEnqueueRequestForObject[T]{}, predicate.Or[T](
		predicate.TypedGenerationChangedPredicate[T]{}, predicate.TypedAnnotationChangedPredicate[T]{},
	))
}

// settling is how long drover waits for further Nodes to become Ready, so that it learns from all of them together.
const settling = time.Second

// nodesReady returns a source of the owners of Machines whose Node takes pods, according to the Machines' conditions (see ownerOf).
func (r *Reconciler) nodesReady(bare bool) source.Source {
	return source.Kind(r.Control.GetCache(), &v1alpha1.Machine{}, handler.TypedFuncs[*v1alpha1.Machine, reconcile.Request]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.Machine], queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if running(e.ObjectOld) || !running(e.ObjectNew) {
				return
			}
			if owner, ok := r.ownerOf(ctx, e.ObjectNew, bare); ok {
				queue.AddAfter(reconcile.Request{NamespacedName: owner}, settling)
			}
		},
	})
}

func running(m *v1alpha1.Machine) bool {
	return m.Condition(v1alpha1.ConditionReady).Status == corev1.ConditionTrue
}

// ownerOf returns the object that has the template of a Machine: the deployment of its set or, when bare is true, a set without a
// deployment. It returns false when there is none.
func (r *Reconciler) ownerOf(ctx context.Context, m *v1alpha1.Machine, bare bool) (types.NamespacedName, bool) {
	key := types.NamespacedName{Namespace: m.Namespace}
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil {
		return key, false
	}
	key.Name = owner.Name
	s := &v1alpha1.MachineSet{}
	if err := r.client.Get(ctx, key, s); err != nil {
		return key, false
	}
	deployment := metav1.GetControllerOfNoCopy(s)
	if deployment != nil {
		key.Name = deployment.Name
	}
	return key, bare == (deployment == nil)
}
