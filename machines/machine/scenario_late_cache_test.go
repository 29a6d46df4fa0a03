package machine_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// lateNodes is a target cluster whose cache does not show the Node m yet.
type lateNodes struct {
	*memory
	t *testing.T
}

func (l lateNodes) GetClient() client.Client {
	all, ok := l.client.(client.WithWatch)
	if !ok {
		l.t.Fatalf("a %T cannot watch", l.client)
	}
	return interceptor.NewClient(all, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, node := o.(*corev1.Node); node && key.Name == "m" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if nodes, ok := list.(*corev1.NodeList); ok {
				nodes.Items = slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == "m" })
			}
			return err
		},
	})
}

func TestANodeThatTheCacheDoesNotShowYetIsDrained(t *testing.T) {
	b := newBench(t, nil)
	b.pass()
	b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
	b.pass()
	b.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	b.create(b.nodeOf())
	b.create(stubborn("p"))
	late := b.options
	late.Target = lateNodes{b.memory, t}
	b.start(late)

	b.end()
	b.shown()
	b.pass()
	if n := b.cloud.count("DeleteServer"); n != 0 || b.deleting().Reason != "DrainingNode" {
		t.Fatalf("with a pod on its node the server was deleted %d times: %+v", n, b.deleting())
	}
	var p corev1.Pod
	if err := b.memory.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "p"}, &p); err != nil {
		t.Fatal(err)
	}
	p.Finalizers = nil
	b.update(&p)
	b.wait(time.Minute)
	for range 3 {
		b.pass()
		b.wait(time.Minute)
	}
	if b.node().Name != "" || b.read().Name != "" {
		t.Errorf("node %q and Machine %q are left", b.node().Name, b.read().Name)
	}
}
