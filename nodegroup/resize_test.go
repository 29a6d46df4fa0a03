package nodegroup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestIncreaseSize(t *testing.T) {
	for _, tc := range []struct {
		name  string
		id    string
		delta int32
		kind  model.Kind
		size  int32
	}{
		{"the delta is added to the size (CA-C58)", "", 2, "", 5},
		{"a group can grow up to its maximum (CA-C57)", "", 7, "", 10},
		{"an increase beyond the maximum is refused and changes nothing (CA-C57)", "", 8, model.FailedPrecondition, 3},
		{"a delta that makes the size overflow an int32 is refused (CA-C57)", "", 1<<31 - 1, model.FailedPrecondition, 3},
		{"a delta of 0 is refused (CA-C56)", "", 0, model.InvalidArgument, 3},
		{"a negative delta is refused (CA-C56)", "", -1, model.InvalidArgument, 3},
		{"an increase of an unknown group is refused", "MachineDeployment/x/y", 1, model.NotFound, 3},
		{"an increase with a malformed group id is refused", "\x00/../", 1, model.NotFound, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 3, 1, 10)
			b := newBench(t, w)
			id := tc.id
			if id == "" {
				id = p.ID()
			}
			wantKind(t, b.groups.IncreaseSize(t.Context(), id, tc.delta), tc.kind)
			b.expect(p, tc.size)
			if want := int32(0); tc.kind != "" && b.patches.Load() != want {
				t.Errorf("a refused call made %d writes", b.patches.Load())
			}
			if tc.kind == "" && b.patches.Load() != 1 {
				t.Errorf("CA-C61 one call made %d writes", b.patches.Load())
			}
		})
	}
	t.Run("an increase with an empty group id is refused", func(t *testing.T) {
		wantKind(t, newBench(t, pools.NewWorld()).groups.IncreaseSize(t.Context(), "", 1), model.InvalidArgument)
	})
}

func TestIncreaseSizeOnAGroupThatChanges(t *testing.T) {
	t.Run("an increase of a group that was paused since the last Refresh is refused (CA-C63)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		d := b.deployment(p)
		d.Annotations[v1alpha1.AnnotationPaused] = "true"
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.FailedPrecondition)
		b.expect(p, 3)
	})
	t.Run("a group deleted since the last Refresh refuses increases, but its target size can still be read (CA-C63, CA-C15)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		if err := b.client.Delete(t.Context(), b.deployment(p)); err != nil {
			t.Fatal(err)
		}
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.FailedPrecondition)
		b.catchUp()
		if size, err := b.groups.TargetSize(p.ID()); err != nil || size != 3 {
			t.Errorf("CA-C14 the target size is %d, error %v", size, err)
		}
		if got := len(b.groups.List()); got != 1 {
			t.Errorf("CA-C15 %d groups are listed before the refresh", got)
		}
		if err := b.groups.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(b.groups.List()); got != 0 {
			t.Errorf("%d groups are listed after the refresh", got)
		}
	})
	t.Run("the delta is added to the size that another client has written, even before the watch shows that size (CA-C60)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		b.freeze()
		d := b.deployment(p)
		*d.Spec.Replicas = 6
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 2), "")
		b.expect(p, 8)
	})
	t.Run("the new size is returned both before and after the watch has delivered drover's write (CA-C36, CA-C39)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 0, 0, 10)
		b := newBench(t, w)
		b.freeze()
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 2), "")
		for range 2 {
			b.expect(p, 2)
			if list, err := b.groups.Instances(p.ID()); err != nil || len(list) != 2 {
				t.Errorf("the instances are %v, error %v", list, err)
			}
			b.catchUp()
		}
		b.frozen = false
		b.catchUp()
		b.expect(p, 2)
	})
}

func TestParallelCallsOnOneGroup(t *testing.T) {
	t.Run("none of two hundred parallel increases is lost (CA-C59)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 0, 0, 1000)
		b := newBench(t, w)
		var calls sync.WaitGroup
		for range 200 {
			calls.Go(func() {
				if err := b.groups.IncreaseSize(t.Context(), p.ID(), 1); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		b.expect(p, 200)
	})
	t.Run("parallel increases and removals are all carried out (CA-C82)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 10, 0, 1000)
		var nodes []membership.Node
		var names []string
		for _, name := range []string{"a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8", "a-9"} {
			_, n := p.Node(name)
			nodes, names = append(nodes, pools.Asked(n)), append(names, name)
		}
		b := newBench(t, w)
		var calls sync.WaitGroup
		for _, n := range nodes {
			calls.Go(func() {
				if err := b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{n}); err != nil {
					t.Error(err)
				}
			})
			calls.Go(func() {
				if err := b.groups.IncreaseSize(t.Context(), p.ID(), 3); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		b.expect(p, 10+30-10, names...)
	})
}

// errLost is the error of a write whose answer is lost.
var errLost = errors.New("connection reset by peer")

func TestAnIncreaseWhoseWriteFailsOrDoesNotBegin(t *testing.T) {
	elapse := func(b *bench) (context.Context, func()) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		go func() {
			for ctx.Err() == nil {
				if b.clock.HasWaiters() {
					b.clock.Step(settleEvery)
				}
			}
		}()
		return ctx, stop
	}
	t.Run("a write whose answer was lost is sent again when it was not applied (CA-C62)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		b.beforePatch = func(n int32) error {
			if n <= 2 {
				return errLost
			}
			return nil
		}
		ctx, stop := elapse(b)
		defer stop()
		wantKind(t, b.groups.IncreaseSize(ctx, p.ID(), 2), "")
		b.expect(p, 5)
	})
	t.Run("a write that the API server refuses changes nothing, and is not sent again (CA-C77)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		b.beforePatch = func(int32) error {
			return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("machinedeployments").GroupResource(), "a", errors.New("no"))
		}
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 2), model.FailedPrecondition)
		b.expect(p, 3)
		if b.patches.Load() != 1 {
			t.Errorf("it was tried %d times", b.patches.Load())
		}
	})
	t.Run("an increase changes nothing when its client disconnects while it waits for another call for the same group (CA-C12)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		release, err := b.groups.writer.locks.take(t.Context(), p.ID())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantKind(t, b.groups.IncreaseSize(ctx, p.ID(), 2), model.Unavailable)
		b.expect(p, 3)
	})
}

func TestCallsWhileTheAPIServerCannotBeReached(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 3, 1, 10)
	_, n := p.Node("a-1")
	b := newBench(t, w)
	b.clock.Step(staleAfter)
	t.Run("Refresh fails (CA-C13)", func(t *testing.T) { wantKind(t, b.groups.Refresh(t.Context()), model.Unavailable) })
	t.Run("IncreaseSize, DeleteNodes and DecreaseTargetSize are refused (CA-C113)", func(t *testing.T) {
		wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), model.Unavailable)
		wantKind(t, b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}), model.Unavailable)
		wantKind(t, b.groups.DecreaseTargetSize(t.Context(), p.ID(), -1), model.Unavailable)
		if b.patches.Load() != 0 {
			t.Errorf("%d writes were made", b.patches.Load())
		}
	})
	t.Run("reads other than Refresh are answered (CA-C13)", func(t *testing.T) {
		if got := len(b.groups.List()); got != 1 {
			t.Errorf("%d groups are listed", got)
		}
		b.expect(p, 3)
	})
	t.Run("Refresh succeeds once the API server answers again", func(t *testing.T) {
		b.groups.freshness.reach.AnsweredControl()
		wantKind(t, b.groups.Refresh(t.Context()), "")
	})
}

func TestTheListOfGroupsChangesOnlyAtARefresh(t *testing.T) {
	t.Run("a new group and changed bounds are listed only after the next Refresh (CA-C14, CA-C21)", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		b := newBench(t, w)
		d := b.deployment(p)
		d.Annotations[v1alpha1.AnnotationsMaxSize[0]] = "20"
		if err := b.client.Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		second := pools.NewWorld()
		z := second.Pool("z", 1, 0, 2)
		z.Deployment.ResourceVersion = ""
		if err := b.client.Create(t.Context(), z.Deployment); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
		if got := b.groups.List(); len(got) != 1 || got[0].Max != 10 {
			t.Errorf("before the refresh the groups are %+v", got)
		}
		if err := b.groups.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := b.groups.List()
		if len(got) != 2 || got[0].ID != p.ID() || got[0].Max != 20 || got[1].ID != z.ID() {
			t.Errorf("CA-C21 after the refresh the groups are %+v", got)
		}
		if err := b.client.Delete(t.Context(), z.Deployment); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
		b.clock.Step(listingAge)
		if got := b.groups.List(); len(got) != 1 {
			t.Errorf("CA-C02 a minute without a refresh, and the groups are %+v", got)
		}
	})
}

func TestReadsOfTheAutoscalerAreAnsweredFromMemory(t *testing.T) {
	t.Run("answering reads makes no call to the API server", func(t *testing.T) {
		w := pools.NewWorld()
		p := w.Pool("a", 3, 1, 10)
		_, n := p.Node("a-1")
		b := newBench(t, w)
		before := b.gets.Load()
		for range 100 {
			b.groups.List()
			b.groups.ForNode(pools.Asked(n))
			b.groups.ForNode(membership.Node{Name: "x", ProviderID: "aws:///i"})
			_, _ = b.groups.TargetSize(p.ID())
			_, _ = b.groups.Instances(p.ID())
			_, _ = b.groups.TemplateNode(p.ID())
		}
		if got := b.gets.Load() - before + b.patches.Load(); got != 0 {
			t.Errorf("reads made %d calls to the API server", got)
		}
	})
}

func TestTheEventOfAnIncreaseShowsTheOldAndTheNewSize(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 3, 1, 10)
	b := newBench(t, w)
	if err := b.groups.IncreaseSize(t.Context(), p.ID(), 2); err != nil {
		t.Fatal(err)
	}
	if got, want := <-b.recorder.Events, corev1.EventTypeNormal+" IncreasedSize Size 3 -> 5 for the autoscaler"; got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
}

func TestChangesOfAGroupWhoseSizeAClientHasDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		// observed is status.observedGeneration. metadata.generation is 5, the client's write that dropped the size.
		observed int64
		kind     model.Kind
		size     int32
	}{
		"an increase adds to the recorded size when that is the size that the client dropped (F-5)":   {4, "", 4},
		"an increase is refused while the size that the client dropped is not the recorded one (F-5)": {3, model.Unavailable, -1},
	} {
		t.Run(name, func(t *testing.T) {
			w := pools.NewWorld()
			p := w.Pool("a", 3, 1, 10)
			p.Deployment.Generation, p.Deployment.Status.ObservedGeneration = 5, tc.observed
			p.Deployment.Spec.Replicas, p.Deployment.Status.LastReplicas = nil, ptr.To[int32](3)
			b := newBench(t, w)
			wantKind(t, b.groups.IncreaseSize(t.Context(), p.ID(), 1), tc.kind)
			if got := ptr.Deref(b.deployment(p).Spec.Replicas, -1); got != tc.size {
				t.Errorf("spec.replicas is %d, want %d", got, tc.size)
			}
		})
	}
}

func TestAGroupWhoseStoredSizeIsAboveOneHundredThousand(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 5, 0, 9)
	_, n := p.Node("a-1")
	b := newBench(t, w)
	p.Deployment.Spec.Replicas = ptr.To[int32](2_000_000_000)
	p.Deployment.ResourceVersion = "1000"
	b.groups.store.inbox.put(membership.Event{Object: p.Deployment})
	wantKind(t, b.groups.store.renew(false), "")
	t.Run("until the next Refresh, the number of Machines is returned as target size, and changes of the group are refused (F-29)", func(t *testing.T) {
		if size, err := b.groups.TargetSize(p.ID()); size != 1 || err != nil {
			t.Errorf("the target size is %d, error %v", size, err)
		}
		if list, err := b.groups.Instances(p.ID()); len(list) != 1 || err != nil {
			t.Errorf("the instances are %v, error %v", list, err)
		}
		if b.groups.IncreaseSize(t.Context(), p.ID(), 1) == nil || b.groups.DecreaseTargetSize(t.Context(), p.ID(), -1) == nil ||
			b.groups.DeleteNodes(t.Context(), p.ID(), []membership.Node{pools.Asked(n)}) == nil || b.patches.Load() != 0 {
			t.Errorf("a call was obeyed, with %d writes", b.patches.Load())
		}
	})
	t.Run("the deployment is no longer listed as a node group after the next Refresh (F-29)", func(t *testing.T) {
		wantKind(t, b.groups.Refresh(t.Context()), "")
		if list := b.groups.List(); len(list) != 0 {
			t.Error("it is one")
		}
	})
}
