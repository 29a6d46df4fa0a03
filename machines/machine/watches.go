package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/ownership"
)

// SetupWithManager adds the controller to the manager. It watches Machines, their Nodes, their servers, and the deadlines
// that Machines inherit from their owners.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	if err := r.index(context.Background()); err != nil {
		return err
	}
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler: r, MaxConcurrentReconciles: r.options.Workers,
		RateLimiter: ownership.Retries(),
	})
	if err != nil {
		return fmt.Errorf("making the Machine controller: %w", err)
	}
	for _, s := range []source.Source{
		source.Kind(r.options.Control.GetCache(), &v1alpha1.Machine{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Machine]{}),
		source.Kind(r.options.Target.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(r.machinesOf), nodePredicate),
		source.Kind(r.options.Control.GetCache(), &v1alpha1.MachineDeployment{},
			handler.TypedEnqueueRequestsFromMapFunc(r.machinesOfDeployment), inheritedPredicate[*v1alpha1.MachineDeployment]()),
		source.Kind(r.options.Control.GetCache(), &v1alpha1.MachineSet{},
			handler.TypedEnqueueRequestsFromMapFunc(r.machinesOfSet), inheritedPredicate[*v1alpha1.MachineSet]()),
		source.Func(r.followCloud),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching for the Machine controller: %w", err)
		}
	}
	return errors.Join(mgr.Add(manager.RunnableFunc(r.sweep)), mgr.Add(r.drains), mgr.Add(r.retries))
}

// index adds the field indexes to the caches.
func (r *Reconciler) index(ctx context.Context) error {
	for _, i := range scope.Indexes(r.options.Cloud) {
		indexer := r.options.Control.GetFieldIndexer()
		if _, ours := i.Object.(*v1alpha1.Machine); !ours {
			indexer = r.options.Target.GetFieldIndexer()
		}
		if err := indexer.IndexField(ctx, i.Object, i.Field, i.Keys); err != nil {
			return fmt.Errorf("indexing by %s: %w", i.Field, err)
		}
	}
	return nil
}

// machinesOf returns the Machines to which a Node may belong, according to the Node's annotation, provider ID and name. A Machine may be in
// the result twice.
func (r *Reconciler) machinesOf(ctx context.Context, node *corev1.Node) []reconcile.Request {
	var out []reconcile.Request
	if namespace, name, ok := strings.Cut(node.Annotations[v1alpha1.AnnotationNodeMachine], "/"); ok {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	for _, fields := range []client.MatchingFields{
		{scope.IndexMachineServer: string(r.options.Cloud.ServerID(node.Spec.ProviderID))},
		{scope.IndexMachineName: node.Name},
	} {
		var list v1alpha1.MachineList
		if err := r.options.Control.GetClient().List(ctx, &list, fields); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing the Machines of a Node failed", "node", klog.KObj(node))
			continue
		}
		for i := range list.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// nodePredicate drops updates of a Node that change nothing that a step depends on, for example heartbeats.
var nodePredicate = predicate.TypedFuncs[*corev1.Node]{
	UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool { return differs(e.ObjectOld, e.ObjectNew) },
}

func differs(a, b *corev1.Node) bool {
	return !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) ||
		!equality.Semantic.DeepEqual(a.Spec, b.Spec) ||
		a.Status.NodeInfo.KubeletVersion != b.Status.NodeInfo.KubeletVersion ||
		!maps.EqualFunc(a.Status.Allocatable, b.Status.Allocatable, func(x, y resource.Quantity) bool { return x.Sign() == y.Sign() }) ||
		!slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y corev1.NodeCondition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
		})
}

// followCloud requeues Machines whose servers changed, Machines whose pods were checked by a drain, and Machines that waited
// for another Machine of their group.
func (r *Reconciler) followCloud(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	add := func(key types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: key}) }
	r.wake.add.Store(&add)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case key := <-r.options.Cloud.Changes():
				add(key)
			}
		}
	}()
	return nil
}

// waker adds Machines to the work queue once the controller has started.
type waker struct {
	add atomic.Pointer[func(types.NamespacedName)]
}

func (w *waker) wake(key types.NamespacedName) {
	if add := w.add.Load(); add != nil {
		(*add)(key)
	}
}

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
	if err := r.options.Control.GetClient().List(ctx, &sets, client.InNamespace(d.Namespace)); err != nil {
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
	err := r.options.Control.GetClient().List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingFields{scope.IndexMachineSet: string(set.UID)})
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
