package nodegroup

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// unseen returns a group of two Machines. The Node of one Machine has registered, but the cache does
// not have it.
func unseen(t *testing.T) (*bench, *pools.Pool, *corev1.Node) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 5)
	p.Node("a-1")
	_, n := p.Node("a-2")
	w.Nodes = w.Nodes[:1]
	b := newBench(t, w)
	b.freeze()
	n.ResourceVersion = ""
	if err := b.client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return b, p, n
}

func TestDeleteNodesOfAPlaceholderReadsTheNodeFromTheAPIServer(t *testing.T) {
	remove := func(b *bench, p *pools.Pool) error {
		return b.groups.DeleteNodes(b.t.Context(), p.ID(), []membership.Node{pools.Fake(pools.MachineID(p, "a-2"), "unregistered")})
	}
	t.Run("keeps the placeholder's Machine when the Machine's Node has registered (CA-C70)", func(t *testing.T) {
		b, p, _ := unseen(t)
		wantKind(t, remove(b, p), model.FailedPrecondition)
		b.expect(p, 2)
	})
	t.Run("removes the placeholder's Machine when the API server has no Node either, because a user deleted it", func(t *testing.T) {
		b, p, n := unseen(t)
		if err := b.client.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		wantKind(t, remove(b, p), "")
		b.expect(p, 1, "a-2")
	})
	t.Run("keeps the placeholder's Machine when the Machine's Node was deleted and has registered again (CA-C70)", func(t *testing.T) {
		b, p, _ := unseen(t)
		m := machineNamed(p, "a-2").DeepCopy()
		m.Status.NodeRef.UID = "earlier"
		b.groups.store.inbox.put(membership.Event{Object: m})
		wantKind(t, b.groups.store.renew(false), "")
		wantKind(t, remove(b, p), model.FailedPrecondition)
		b.expect(p, 2)
	})
	t.Run("keeps the placeholder's Machine when the Machine's Node registers during the call (CA-C70)", func(t *testing.T) {
		b, p, n := unseen(t)
		if err := b.client.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		b.beforePatch = func(int32) error {
			b.groups.store.inbox.put(membership.Event{Object: n})
			wantKind(t, b.groups.store.renew(false), "")
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("machinedeployments").GroupResource(), "a", nil)
		}
		wantKind(t, remove(b, p), model.FailedPrecondition)
		b.expect(p, 2)
	})
	t.Run("keeps the placeholder's Machine when the Machine's Node cannot be read (CA-C77)", func(t *testing.T) {
		b, p, _ := unseen(t)
		b.groups.live.target = unreadable{b.client}
		wantKind(t, remove(b, p), model.Unavailable)
		b.expect(p, 2)
	})
	t.Run("reads no Node from the API server when the cache has the Node or the Machine names no Node", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 0, 5)
		_, n := p.Node("a-1")
		p.Machine("a-2", pools.WithServer)
		b := newBench(t, w)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n), pools.Fake(pools.MachineID(p, "a-2"), "unregistered")}), "")
		if got := b.gets.Load(); got != 0 {
			t.Errorf("%d reads were made", got)
		}
		b.expect(p, 1, "a-1", "a-2")
	})
}

// unreadable is a client whose Get always fails.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("connection refused")
}

func TestAWatchOfNodesThatDeliversNoNewNodesIsDetected(t *testing.T) {
	pass := func(b *bench, d time.Duration) {
		b.clock.Step(d)
		b.probeOnce(b.t.Context())
	}
	t.Run("Refresh fails when a Machine names an existing Node that the cache lacks (CA-C13)", func(t *testing.T) {
		b, _, _ := unseen(t)
		b.probeAll()
		pass(b, staleAfter-time.Second)
		wantKind(t, b.groups.Refresh(t.Context()), "")
		pass(b, time.Second)
		wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable)
		b.frozen = false
		b.catchUp()
		pass(b, time.Second)
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
	t.Run("Refresh succeeds when the Node that the cache lacks was deleted again", func(t *testing.T) {
		b, _, n := unseen(t)
		b.probeAll()
		if err := b.client.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		pass(b, staleAfter)
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
	t.Run("Refresh succeeds when the cache lacks only the Node of a Machine that is being deleted", func(t *testing.T) {
		b, p, _ := unseen(t)
		m := machineNamed(p, "a-2").DeepCopy()
		m.DeletionTimestamp = &metav1.Time{Time: pools.Noon}
		b.groups.store.inbox.put(membership.Event{Object: m})
		wantKind(t, b.groups.store.renew(false), "")
		b.probeAll()
		pass(b, staleAfter)
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
	t.Run("Refresh succeeds when the Node that a Machine names never existed", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 1, 0, 5)
		p.Machine("a-1", pools.WithServer, func(m *v1alpha1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: "a-1"} })
		b := newBench(t, w)
		b.probeAll()
		pass(b, staleAfter)
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
}
