package nodegroup

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-project/drover/test/pools"
)

// seriesIn returns the number of time series in a registry.
func seriesIn(t *testing.T, registry prometheus.Gatherer) (n int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

func TestADeletedGroupLeavesNoMetricsAndNoLock(t *testing.T) {
	const many = 10_000
	t.Run("metrics of a deleted group disappear within an hour (F-12)", func(t *testing.T) {
		w, registry := pools.NewWorld(), prometheus.NewRegistry()
		living, gone := w.Pool("living", 1, 0, 9), w.Pool("gone", 1, 0, 9)
		b := newBench(t, w, Options{Registry: registry})
		wantKind(t, b.groups.IncreaseSize(t.Context(), living.ID(), 1), "")
		b.groups.metrics.changed("never", "IncreaseSize", 1, 2, b.clock.Now())
		start := seriesIn(t, registry)
		wantKind(t, b.groups.IncreaseSize(t.Context(), gone.ID(), 1), "")
		for n := range many {
			b.groups.metrics.changed(fmt.Sprint("group-", n), "IncreaseSize", 1, 2, b.clock.Now())
			b.groups.metrics.changed(fmt.Sprint("group-", n), "DeleteNodes", 2, 1, b.clock.Now())
		}
		if err := b.client.Delete(t.Context(), b.deployment(gone)); err != nil {
			t.Fatal(err)
		}
		b.catchUp()
		wantKind(t, b.groups.Refresh(t.Context()), "")
		b.probeOnce(t.Context())
		if got := seriesIn(t, registry); got < 4*many {
			t.Errorf("%d series right after the last change, want the counters of all", got)
		}
		b.clock.Step(31 * time.Minute)
		b.probeOnce(t.Context())
		// Fewer series exist than at the start: the gauges of the deleted group are gone, and so are the counters of the group
		// that is named "never".
		if got, want := seriesIn(t, registry), start-4-2; got != want {
			t.Errorf("%d series an hour later, want %d", got, want)
		}
	})
	t.Run("the lock of a group is removed when no call holds it or waits for it (F-12)", func(t *testing.T) {
		l := &locks{}
		for n := range many {
			release, err := l.take(t.Context(), fmt.Sprint(n))
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		release, err := l.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() {
				if _, err := l.take(ctx, "a"); err == nil {
					t.Error("the lock was taken twice")
				}
			})
		}
		cancel()
		waiting.Wait()
		if len(l.byID) != 1 {
			t.Errorf("%d locks, want the one that is held", len(l.byID))
		}
		release()
		if len(l.byID) != 0 {
			t.Errorf("%d locks are left", len(l.byID))
		}
	})
}
