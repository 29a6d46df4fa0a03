package nodegroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// source delivers events.
type source interface {
	// start passes all existing objects to receive and returns. From then on it passes each change to receive. It makes no
	// calls besides the watches.
	start(ctx context.Context, receive func(membership.Event)) error
}

// caches are the informer caches of the cluster with the Machines and of the cluster with the Nodes.
type caches struct {
	control, target ctrlcache.Cache
}

func (c *caches) start(ctx context.Context, receive func(membership.Event)) error {
	watched := []struct {
		cache   ctrlcache.Cache
		object  client.Object
		matters func(before, after any) bool
	}{
		{c.control, &v1alpha1.MachineDeployment{}, always},
		{c.control, &v1alpha1.MachineSet{}, always},
		{c.control, &v1alpha1.Machine{}, always},
		{c.target, &corev1.Node{}, nodeMatters},
	}
	var synced []cache.InformerSynced
	for _, w := range watched {
		informer, err := w.cache.GetInformer(ctx, w.object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.object, err)
		}
		registration, err := informer.AddEventHandler(handler(receive, w.matters))
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("syncing caches: %w", context.Cause(ctx))
	}
	return nil
}

// handler passes an informer's events to receive. The objects belong to the cache and must not be changed.
func handler(receive func(membership.Event), matters func(before, after any) bool) cache.ResourceEventHandlerFuncs {
	pass := func(o any, gone bool) {
		if object, ok := o.(client.Object); ok {
			receive(membership.Event{Object: object, Gone: gone})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { pass(o, false) },
		UpdateFunc: func(before, after any) {
			if matters(before, after) {
				pass(after, false)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			pass(o, true)
		},
	}
}

func always(_, _ any) bool { return true }

// nodeMatters reports whether an update of a Node can change an answer. Most updates change only the status, and most fields
// of the status affect no answer.
func nodeMatters(before, after any) bool {
	a, ok := before.(*corev1.Node)
	b, same := after.(*corev1.Node)
	if !ok || !same {
		return true
	}
	return a.UID != b.UID || !sameTaints(a.Spec.Taints, b.Spec.Taints) || a.Spec.ProviderID != b.Spec.ProviderID ||
		v1alpha1.NodeOwner(a.Labels, a.Annotations) != v1alpha1.NodeOwner(b.Labels, b.Annotations) ||
		v1alpha1.ControlPlaneRole(a.Labels, nil) != v1alpha1.ControlPlaneRole(b.Labels, nil) ||
		a.Annotations[v1alpha1.AnnotationNodeMachine] != b.Annotations[v1alpha1.AnnotationNodeMachine]
}

// sameTaints reports whether two lists hold taints with the same keys and effects in the same order.
func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool { return x.MatchTaint(&y) })
}
