package nodegroup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// pair returns two replicas of drover on one API server. The autoscaler has called only the first replica. The watches of the
// second replica deliver nothing from now on.
func pair(t *testing.T, w *pools.World) (first, second *bench) {
	t.Helper()
	first = newBench(t, w)
	second = &bench{t: t, client: first.client, clock: first.clock, recorder: first.recorder}
	second.groups = newGroups(parts{
		source: second, live: listing{first.client, second}, nodes: first.client, writer: first.client,
		recorder: first.recorder, options: Options{Clock: first.clock, Discovery: first.options.Discovery, Reach: second.reach()},
	})
	second.groups.freshness.reach.AnsweredControl()
	second.watch()
	wantKind(t, second.groups.store.renew(true), "")
	second.freeze()
	return first, second
}

func TestAReplicaOfDroverWithLateWatchesReadsTheSizesFromTheAPIServer(t *testing.T) {
	grown := func(t *testing.T) (p *pools.Pool, first, second *bench) {
		w := pools.NewWorld()
		p = w.Pool("a", 3, 0, 10)
		for _, name := range []string{"a-1", "a-2", "a-3"} {
			p.Node(name)
		}
		first, second = pair(t, w)
		wantKind(t, first.groups.IncreaseSize(t.Context(), p.ID(), 2), "")
		return p, first, second
	}
	size := func(t *testing.T, b *bench, p *pools.Pool, want int32) {
		t.Helper()
		if got, err := b.groups.TargetSize(p.ID()); err != nil || got != want {
			t.Errorf("CA-C36 the size is %d (error %v), want %d", got, err, want)
		}
	}
	t.Run("after a failover, the first Refresh reads the sizes, so that upcoming nodes are shown (CA-C36, CA-C58, MC-74)", func(t *testing.T) {
		p, _, second := grown(t)
		size(t, second, p, 3)
		for range 3 {
			wantKind(t, second.groups.Refresh(t.Context()), "")
			size(t, second, p, 5)
			second.clock.Step(idleAfter - time.Second)
			second.groups.freshness.reach.AnsweredControl()
		}
		if got := second.lists.Load(); got != 1 {
			t.Errorf("%d lists were made", got)
		}
		list, err := second.groups.Instances(p.ID())
		if err != nil || len(list) != 5 || list[4].State != model.Creating {
			t.Errorf("CA-C39 the instances are %v, error %v", list, err)
		}
	})
	t.Run("a replica reads the sizes when the autoscaler connects, before its first call (CA-C58)", func(t *testing.T) {
		p, _, second := grown(t)
		second.groups.Connected(t.Context())
		size(t, second, p, 5)
		wantKind(t, second.groups.Refresh(t.Context()), "")
		if got := second.lists.Load(); got != 1 {
			t.Errorf("%d lists were made", got)
		}
	})
	t.Run("after a failover, an increase that the autoscaler based on the old size is refused, and the next one is accepted (CA-C62)", func(t *testing.T) {
		p, first, second := grown(t)
		wantKind(t, second.groups.IncreaseSize(t.Context(), p.ID(), 2), model.Unavailable)
		first.expect(p, 5)
		wantKind(t, second.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		first.catchUp()
		first.expect(p, 6)
	})
	t.Run("after a failover, parallel increases of two groups that the autoscaler based on the old sizes are refused (CA-C62)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := pools.NewWorld()
			p, other := w.Pool("a", 3, 0, 10), w.Pool("b", 3, 0, 10)
			first, second := pair(t, w)
			for _, pool := range []*pools.Pool{p, other} {
				wantKind(t, first.groups.IncreaseSize(t.Context(), pool.ID(), 2), "")
			}
			// Hold the lock until both calls wait for it. Then one of them reads the sizes, and the other one uses the result.
			second.groups.sizes.turn <- struct{}{}
			var calls sync.WaitGroup
			for _, pool := range []*pools.Pool{p, other} {
				calls.Go(func() { wantKind(t, second.groups.IncreaseSize(t.Context(), pool.ID(), 2), model.Unavailable) })
			}
			synctest.Wait()
			<-second.groups.sizes.turn
			calls.Wait()
			first.expect(p, 5)
			first.expect(other, 5)
		})
	})
	t.Run("after a failover, a node that the previous replica removed has no group, and a second DeleteNodes changes nothing (CA-C67, CA-C76)", func(t *testing.T) {
		p, first, second := grown(t)
		n := membership.Node{Name: "a-2", ProviderID: pools.ProviderID("a-2")}
		wantKind(t, first.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{n}), "")
		wantKind(t, second.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{n}), "")
		size(t, second, p, 4)
		if _, ok := second.groups.ForNode(n); ok {
			t.Error("its node has a group")
		}
		first.expect(p, 4, "a-2")
	})
	t.Run("a replica reads the sizes again at a Refresh after a long time without calls", func(t *testing.T) {
		p, first, second := grown(t)
		first.catchUp()
		first.freeze()
		wantKind(t, second.groups.Refresh(t.Context()), "")
		wantKind(t, second.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		first.clock.Step(idleAfter)
		wantKind(t, first.groups.Refresh(t.Context()), "")
		size(t, first, p, 6)
	})
	t.Run("a replica reads the sizes again when the clock has been set back (CA-C115)", func(t *testing.T) {
		p, first, second := grown(t)
		wantKind(t, second.groups.Refresh(t.Context()), "")
		wantKind(t, first.groups.IncreaseSize(t.Context(), p.ID(), 1), "")
		second.clock.SetTime(second.clock.Now().Add(-time.Hour))
		wantKind(t, second.groups.Refresh(t.Context()), "")
		size(t, second, p, 6)
	})
	t.Run("after a failover, Refresh and changes of a group fail until the sizes can be read, and other calls are answered (CA-C13)", func(t *testing.T) {
		p, first, second := grown(t)
		second.unlistable = errors.New("connection refused")
		wantKind(t, second.groups.Refresh(t.Context()), model.Unavailable)
		wantKind(t, second.groups.IncreaseSize(t.Context(), p.ID(), 1), model.Unavailable)
		wantKind(t, second.groups.DecreaseTargetSize(t.Context(), p.ID(), -1), model.Unavailable)
		second.groups.Connected(t.Context())
		wantKind(t, second.groups.Refresh(t.Context()), model.Unavailable)
		size(t, second, p, 3)
		first.expect(p, 5)
		second.unlistable = nil
		wantKind(t, second.groups.Refresh(t.Context()), "")
		size(t, second, p, 5)
	})
	t.Run("a size that was read is replaced only by a newer watch event", func(t *testing.T) {
		p, first, second := grown(t)
		wantKind(t, second.groups.Refresh(t.Context()), "")
		second.groups.store.inbox.put(membership.Event{Object: p.Deployment})
		wantKind(t, second.groups.store.renew(false), "")
		size(t, second, p, 5)
		d := first.deployment(p)
		d.Spec.Replicas = ptr.To[int32](7)
		if err := first.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		second.frozen = false
		second.catchUp()
		size(t, second, p, 7)
	})
	t.Run("a replica forgets the size of a deployment when the deployment is deleted", func(t *testing.T) {
		p, first, second := grown(t)
		wantKind(t, second.groups.Refresh(t.Context()), "")
		if err := first.client.Delete(t.Context(), first.deployment(p)); err != nil {
			t.Fatal(err)
		}
		second.frozen = false
		second.catchUp()
		if len(second.groups.store.own) != 0 {
			t.Errorf("%d objects are remembered", len(second.groups.store.own))
		}
	})
	t.Run("concurrent calls share one read of the sizes", func(t *testing.T) {
		p, _, second := grown(t)
		slow := &slowReader{Reader: second.groups.sizes.live, begun: make(chan struct{}), goOn: make(chan struct{})}
		second.groups.sizes.live = slow
		var calls sync.WaitGroup
		calls.Go(func() { second.groups.Connected(t.Context()) })
		<-slow.begun
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantKind(t, second.groups.Refresh(ctx), model.Unavailable)
		// These calls are made while a read is under way. That read may have begun before the sizes that they need were written,
		// so one more read follows, which is enough for all of them.
		for range 5 {
			calls.Go(func() { wantKind(t, second.groups.Refresh(t.Context()), "") })
		}
		close(slow.goOn)
		calls.Wait()
		size(t, second, p, 5)
		if got := second.lists.Load(); got > 2 {
			t.Errorf("%d lists were made", got)
		}
	})
}

// slowReader reads from the API server. Its first list closes begun, and then waits until the test closes goOn.
type slowReader struct {
	client.Reader
	once        sync.Once
	begun, goOn chan struct{}
}

func (s *slowReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	s.once.Do(func() {
		close(s.begun)
		<-s.goOn
	})
	return s.Reader.List(ctx, list, opts...)
}
