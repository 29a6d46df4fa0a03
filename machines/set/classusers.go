package set

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// setupClasses makes the manager watch classes and what uses them.
func (r *Reconciler) setupClasses(mgr ctrl.Manager, informers cache.Cache) error {
	for _, o := range []client.Object{&v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}, &v1alpha1.Machine{}} {
		if err := informers.IndexField(context.Background(), o, classIndex, r.classOf); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineclass").
		WatchesRawSource(source.Kind(informers, &v1alpha1.MachineClass{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.MachineClass]{})).
		WatchesRawSource(source.Kind(informers, &v1alpha1.MachineDeployment{}, users[*v1alpha1.MachineDeployment](r))).
		WatchesRawSource(source.Kind(informers, &v1alpha1.MachineSet{}, users[*v1alpha1.MachineSet](r))).
		WatchesRawSource(source.Kind(informers, &v1alpha1.Machine{}, users[*v1alpha1.Machine](r))).
		Complete(classes{r})
}

// users enqueues a MachineClass when an object starts or stops using it.
func users[T client.Object](r *Reconciler) handler.TypedEventHandler[T, ctrl.Request] {
	wake := func(o T, q ownership.Queue) {
		for _, class := range r.classKeys(o) {
			q.AddAfter(ctrl.Request{NamespacedName: class}, gather)
		}
	}
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q ownership.Queue) { wake(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q ownership.Queue) {
			before, after := r.classOf(e.ObjectOld), r.classOf(e.ObjectNew)
			if len(before) != len(after) || len(before) > 0 && before[0] != after[0] {
				wake(e.ObjectOld, q)
				wake(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q ownership.Queue) { wake(e.Object, q) },
	}
}

// classOf returns the class that an object uses, as the value of an index.
func (r *Reconciler) classOf(o client.Object) []string {
	var names []string
	for _, key := range r.classKeys(o) {
		names = append(names, key.String())
	}
	return names
}

// classKeys returns the class that an object uses. A class of another namespace that the object may not use does not count:
// nobody may hold an object that he has no right to (F-11).
func (r *Reconciler) classKeys(o client.Object) []types.NamespacedName {
	var spec v1alpha1.MachineSpec
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		spec = o.Spec.Template.Spec
	case *v1alpha1.MachineSet:
		spec = o.Spec.Template.Spec
	case *v1alpha1.Machine:
		spec = o.Spec
	}
	provider, err := spec.Provider()
	if err != nil || provider.ValueFrom == nil || provider.ValueFrom.MachineClass == nil || provider.ValueFrom.MachineClass.Name == "" {
		return nil
	}
	ref := provider.ValueFrom.MachineClass
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = o.GetNamespace()
	}
	if !r.mayUse(o.GetNamespace(), key.Namespace) {
		return nil
	}
	return []types.NamespacedName{key}
}

// mayUse reports whether objects of one namespace may use classes and Secrets of another.
func (r *Reconciler) mayUse(from, to string) bool {
	return from == to || slices.Contains(r.options.AllowedNamespaces, to)
}
