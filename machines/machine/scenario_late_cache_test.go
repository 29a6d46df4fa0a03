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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-project/drover/machines/cloud"
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
	b.withLateNodes()

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

// withLateNodes replaces the controller by one whose cache does not show the Machine's Node.
func (b *bench) withLateNodes() {
	late := b.options
	late.Target = lateNodes{b.memory, b.t}
	b.start(late)
}

func TestAServerIsThrownAwayOnlyWhenALiveReadShowsNoNode(t *testing.T) {
	for _, tt := range []struct {
		name string
		ends func(b *bench)
	}{
		{"keeps a server at its join deadline when its Node has registered and the watch of Nodes is late (F-63)", func(b *bench) { b.wait(15 * time.Minute) }},
		{"keeps a server in ERROR when its Node has registered and the watch of Nodes is late (F-63)", func(b *bench) {
			b.cloud.change("u", func(s *fakeServer) { s.State, s.Status = cloud.ServerError, "ERROR" })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, owned)
			b.withLateNodes()
			b.pass()
			b.cloud.change("u", b.cloud.active)
			b.pass()
			b.create(b.nodeOf())
			tt.ends(b)
			b.pass()
			if m := b.read(); m.DeletionTimestamp != nil || m.Spec.ProviderID == nil || m.Status.NodeRef == nil || b.cloud.count("DeleteServer") != 0 {
				t.Errorf("%d deletions of the server, %+v", b.cloud.count("DeleteServer"), m.Status)
			}
		})
	}
	t.Run("keeps a server at its join deadline while Nodes cannot be read live (F-63)", func(t *testing.T) {
		b := newBench(t, owned)
		b.pass()
		b.cloud.change("u", b.cloud.active)
		b.pass()
		unreadable := b.options
		unreadable.Target = unreadableNodes{b.memory, t}
		b.start(unreadable)
		b.wait(15 * time.Minute)
		if _, err := b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key}); err == nil {
			t.Error("the reconcile returned no error")
		}
		if m := b.read(); m.DeletionTimestamp != nil {
			t.Errorf("the Machine was deleted: %+v", m.Status)
		}
	})
}

// unreadableNodes is a target cluster whose API server answers no live read.
type unreadableNodes struct {
	*memory
	t *testing.T
}

func (u unreadableNodes) GetAPIReader() client.Reader {
	all, ok := u.client.(client.WithWatch)
	if !ok {
		u.t.Fatalf("a %T cannot watch", u.client)
	}
	return interceptor.NewClient(all, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewServiceUnavailable("no answer")
		},
	})
}

func TestTheJoinTimeoutIsMeasuredByDroversClock(t *testing.T) {
	boots := func(t *testing.T) *bench {
		b := newBench(t, owned)
		b.pass()
		b.cloud.change("u", b.cloud.active)
		b.pass()
		return b
	}
	for name, by := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run("a server has its whole join timeout, and no longer, when the cloud's clock is "+name+" (F-63)", func(t *testing.T) {
			b := boots(t)
			b.cloud.change("u", func(s *fakeServer) { s.Created = s.Created.Add(by) })
			b.wait(9 * time.Minute)
			b.pass()
			if b.read().DeletionTimestamp != nil {
				t.Error("the Machine was given up after 9 minutes")
			}
			b.wait(2 * time.Minute)
			b.pass()
			if b.read().DeletionTimestamp == nil {
				t.Error("the Machine was not given up after 11 minutes")
			}
		})
	}
	t.Run("no server is given up while the cloud's lists fail (F-63)", func(t *testing.T) {
		b := boots(t)
		b.cloud.outdated = "listing the servers has failed"
		b.wait(time.Hour)
		b.pass()
		if b.read().DeletionTimestamp != nil {
			t.Error("the Machine was given up")
		}
	})
}
