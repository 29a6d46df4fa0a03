package classprotection

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// gather is how long the queue collects events before a class is reconciled.
const gather = 200 * time.Millisecond

// users finds the classes that objects use.
type users struct {
	// allowed lists the namespaces whose classes may be used by objects of other namespaces.
	allowed []string
}

// events enqueues a MachineClass when an object starts or stops using it.
func events[T client.Object](u users) handler.TypedEventHandler[T, ctrl.Request] {
	wake := func(o T, q ownership.Queue) {
		for _, class := range u.classKeys(o) {
			q.AddAfter(ctrl.Request{NamespacedName: class}, gather)
		}
	}
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q ownership.Queue) { wake(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q ownership.Queue) {
			before, after := u.classOf(e.ObjectOld), u.classOf(e.ObjectNew)
			if len(before) != len(after) || len(before) > 0 && before[0] != after[0] {
				wake(e.ObjectOld, q)
				wake(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q ownership.Queue) { wake(e.Object, q) },
	}
}

// classOf returns the index value for the class that an object uses.
func (u users) classOf(o client.Object) []string {
	var names []string
	for _, key := range u.classKeys(o) {
		names = append(names, key.String())
	}
	return names
}

// classKeys returns the class that an object uses. It leaves out a class of another namespace that the object may not use, because a user
// must not be able to protect an object to which the user has no right (F-11).
func (u users) classKeys(o client.Object) []types.NamespacedName {
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
	if !u.mayUse(o.GetNamespace(), key.Namespace) {
		return nil
	}
	return []types.NamespacedName{key}
}

// mayUse reports whether objects of one namespace may use classes of another.
func (u users) mayUse(from, to string) bool {
	return from == to || slices.Contains(u.allowed, to)
}
