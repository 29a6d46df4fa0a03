package model

import (
	"math"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

// groupOf returns the node group of a pool in a snapshot.
func groupOf(w *pools.World, p *pools.Pool) *Group {
	var events []membership.Event
	for _, o := range w.Objects() {
		events = append(events, membership.Event{Object: o})
	}
	return Empty(Rules{Discovery: Discovery{Cloud: pools.OpenStack}}).Apply(events, pools.Noon).Groups[p.ID()]
}

// FuzzNewSizesAreWithinTheBounds resizes a group with arbitrary size and bounds by an arbitrary number: nothing may panic, and a changed size must
// be within the bounds.
func FuzzNewSizesAreWithinTheBounds(f *testing.F) {
	f.Add(int32(3), int32(0), int32(5), int32(2))
	f.Add(int32(100_000), int32(0), int32(100_000), int32(math.MaxInt32))
	f.Add(int32(math.MaxInt32), int32(math.MaxInt32), int32(math.MaxInt32), int32(1))
	f.Add(int32(math.MinInt32), int32(math.MinInt32), int32(math.MinInt32), int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, replicas, low, high, delta int32) {
		w := pools.NewWorld()
		p := w.Pool("a", 0, low, high)
		p.Deployment.Spec.Replicas = ptr.To(replicas)
		p.Machine("a-1")
		g := groupOf(w, p)
		delta = max(delta, 1)
		if c, err := Increase(g, delta); err == nil && (c.Replicas > g.Max || c.Replicas <= g.Target) {
			t.Errorf("increasing %d of at most %d by %d makes it %d", g.Target, g.Max, delta, c.Replicas)
		}
		c := Decrease(g, -delta)
		if c.Replicas > g.Target || c.Replicas < min(g.Min, g.Target) {
			t.Errorf("taking %d back from %d of at least %d makes it %d", delta, g.Target, g.Min, c.Replicas)
		}
	})
}

func TestAnIncreaseAboveTheMaximumIsRefused(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 3, 0, 5)
	g := groupOf(w, p)
	if _, err := Increase(g, 3); KindOf(err) != FailedPrecondition {
		t.Errorf("CA-C57 got error %v, want kind %s", err, FailedPrecondition)
	}
	if c, err := Increase(g, 2); err != nil || c.Replicas != 5 {
		t.Errorf("CA-C57 got size %d and error %v, want 5", c.Replicas, err)
	}
}

func TestPatchesOfAGroup(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 2, 0, 5)
	p.Deployment.Spec.PlaceholderSeries = ptr.To[int32](math.MaxInt32)
	m := p.Machine("a-1")
	g := groupOf(w, p)
	t.Run("a patch contains the resourceVersion of the object that was read, and only the changed fields", func(t *testing.T) {
		c := Change{Group: g, Replicas: 3}
		got, err := c.Patch(pools.Noon)
		want := `{"metadata":{"resourceVersion":"1","uid":"uid-a"},"spec":{"replicas":3}}`
		if err != nil || string(got) != want {
			t.Errorf("got %s, error %v, want %s", got, err, want)
		}
	})
	t.Run("a patch is refused when it would make spec.removals too long", func(t *testing.T) {
		p.Deployment.Spec.Removals = make([]v1alpha1.Removal, v1alpha1.MaxRemovals)
		full := groupOf(w, p)
		_, err := Change{Group: full, Replicas: 1, Remove: []*membership.Member{membership.NewMember(pools.OpenStack, m)}}.Patch(pools.Noon)
		if KindOf(err) != ResourceExhausted {
			t.Errorf("got error %v, want kind %s", err, ResourceExhausted)
		}
	})
	t.Run("a patch sets the placeholders' series to 0 when the next number would exceed the largest int32", func(t *testing.T) {
		got, err := Change{Group: g, Replicas: 2, raiseSeries: true}.Patch(pools.Noon)
		want := `{"metadata":{"resourceVersion":"1","uid":"uid-a"},"spec":{"placeholderSeries":0}}`
		if err != nil || string(got) != want {
			t.Errorf("got %s, error %v, want %s", got, err, want)
		}
	})
}
