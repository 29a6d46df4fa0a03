package machine_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// tally counts the writes of the controller, except Events and evictions.
type tally struct {
	counting bool
	made     map[string]int
	refused  []string
}

func (c *tally) add(verb string, o client.Object, err error) error {
	if !c.counting {
		return err
	}
	if c.made == nil {
		c.made = map[string]int{}
	}
	what := fmt.Sprintf("%s %T", verb, o)
	c.made[what]++
	if err != nil {
		c.refused = append(c.refused, what+": "+err.Error())
	}
	return err
}

// all returns the number of writes.
func (c *tally) all() (n int) {
	for _, count := range c.made {
		n += count
	}
	return n
}

// count returns f with functions Create, Patch and Delete that also count their calls.
func (c *tally) count(f interceptor.Funcs) interceptor.Funcs {
	create, patch, remove := f.Create, f.Patch, f.Delete
	f.Create = func(ctx context.Context, store client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		return c.add("create", o, create(ctx, store, o, opts...))
	}
	f.Patch = func(ctx context.Context, store client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		return c.add("patch", o, patch(ctx, store, o, p, opts...))
	}
	f.Delete = func(ctx context.Context, store client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		return c.add("delete", o, remove(ctx, store, o, opts...))
	}
	return f
}

func (b *bench) createObject(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if err := b.fails("CREATE", o); err != nil {
		return err
	}
	return c.Create(ctx, o, opts...)
}

// get reads an object for the controller. If b.cached is set, it is returned in place of the stored Machine, as from an old cache.
func (b *bench) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if m, ok := o.(*v1alpha1.Machine); ok && b.written.counting && b.cached != nil {
		b.cached.DeepCopyInto(m)
		return nil
	}
	if err := b.readFails(ctx, "GET", o); err != nil {
		return err
	}
	return c.Get(ctx, key, o, opts...)
}

// registersNow creates the Machine's Node in the state in which a kubelet registers it: not Ready, with the startup taint and
// with the taint that the cloud-controller-manager removes.
func (b *bench) registersNow() {
	b.t.Helper()
	n := b.nodeOf()
	n.CreationTimestamp.Time = b.clock.Now()
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	n.Spec.Taints = []corev1.Taint{taint(startup, corev1.TaintEffectNoSchedule), taint(v1alpha1.TaintUninitialized, corev1.TaintEffectNoSchedule)}
	b.create(n)
}
