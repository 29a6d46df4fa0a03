package nodegroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// source is where the objects of a snapshot come from.
type source interface {
	// start returns once everything is there; from then on it calls changed after each change.
	start(ctx context.Context, changed func()) error
	// objects gives what is there now. It does no I/O.
	objects(ctx context.Context) (Objects, error)
}

// caches are the informers' caches, of the cluster with the Machines and of that with the Nodes.
type caches struct {
	control, target ctrlcache.Cache
}

func (c *caches) start(ctx context.Context, changed func()) error {
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
	for _, w := range watched {
		informer, err := w.cache.GetInformer(ctx, w.object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.object, err)
		}
		if _, err := informer.AddEventHandler(handler(changed, w.matters)); err != nil {
			return fmt.Errorf("watching %T: %w", w.object, err)
		}
	}
	for _, w := range watched[2:] {
		if !w.cache.WaitForCacheSync(ctx) {
			return fmt.Errorf("syncing caches: %w", context.Cause(ctx))
		}
	}
	return nil
}

func handler(changed func(), matters func(before, after any) bool) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			if matters(before, after) {
				changed()
			}
		},
	}
}

func always(_, _ any) bool { return true }

// nodeMatters tells whether an update of a Node can change an answer. Its status, which moves most, cannot.
func nodeMatters(before, after any) bool {
	a, ok := before.(*corev1.Node)
	b, same := after.(*corev1.Node)
	if !ok || !same {
		return true
	}
	return a.UID != b.UID || a.Spec.ProviderID != b.Spec.ProviderID ||
		a.Labels[v1alpha1.LabelOwnedBy] != b.Labels[v1alpha1.LabelOwnedBy] ||
		a.Annotations[v1alpha1.AnnotationNodeMachine] != b.Annotations[v1alpha1.AnnotationNodeMachine]
}

func (c *caches) objects(ctx context.Context) (Objects, error) {
	return read(ctx, c.control, c.target)
}

// read lists everything without copying it: a snapshot changes nothing.
func read(ctx context.Context, control, target client.Reader) (Objects, error) {
	var (
		deployments v1alpha1.MachineDeploymentList
		sets        v1alpha1.MachineSetList
		machines    v1alpha1.MachineList
		nodes       corev1.NodeList
	)
	lists := []struct {
		reader client.Reader
		list   client.ObjectList
	}{{control, &deployments}, {control, &sets}, {control, &machines}, {target, &nodes}}
	for _, l := range lists {
		if err := l.reader.List(ctx, l.list, client.UnsafeDisableDeepCopy); err != nil {
			return Objects{}, fmt.Errorf("listing %T: %w", l.list, err)
		}
	}
	return Objects{
		Deployments: pointers(deployments.Items),
		Sets:        pointers(sets.Items),
		Machines:    pointers(machines.Items),
		Nodes:       pointers(nodes.Items),
	}, nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
