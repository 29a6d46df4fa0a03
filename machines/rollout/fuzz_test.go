package rollout

import (
	"errors"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// extremes holds values, possibly extreme, for the numbers that a user can set in a deployment.
type extremes struct {
	replicas, last, stored, minReady, history, series int32
	surge, unavailable, annotation                    string
	strategy                                          uint8
	paused                                            bool
}

var strategies = []v1alpha1.StrategyType{v1alpha1.RollingUpdate, v1alpha1.OnDelete, v1alpha1.Recreate}

// limit parses a number or a percentage as the API does.
func limit(text string) *intstr.IntOrString {
	v := intstr.Parse(text)
	return &v
}

// snapshot returns a rollout with the values of e: an old set and the current set, each with Machines.
func (e extremes) snapshot() Snapshot {
	w := newSimulation(shape{replicas: 3, surge: "1", unavailable: "0"})
	w.settle(&strings.Builder{})
	w.template("B")
	w.plan()
	for _, set := range w.sets {
		w.act(set)
	}
	d := w.d
	d.Spec.Replicas, d.Status.LastReplicas, d.Spec.MinReadySeconds, d.Spec.RevisionHistoryLimit = &e.replicas, &e.last, &e.minReady, &e.history
	if e.replicas == -1 {
		d.Spec.Replicas = nil
	}
	d.Spec.PlaceholderSeries, d.Spec.ProgressDeadlineSeconds, d.Status.CollisionCount = &e.series, &e.minReady, &e.history
	d.Spec.Paused = e.paused
	d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{
		Type:          strategies[int(e.strategy)%len(strategies)],
		RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: limit(e.surge), MaxUnavailable: limit(e.unavailable)},
	}
	s := w.snapshot()
	for i := range s.Sets {
		set := s.Sets[i].Set
		set.Spec.Replicas = &e.stored
		for _, key := range []string{v1alpha1.AnnotationDesiredReplicas, v1alpha1.AnnotationMaxReplicas} {
			set.Annotations[key] = e.annotation
		}
	}
	return s
}

// FuzzPlansContainNoSizeOutOfRange computes plans for deployments with arbitrary numbers. It checks that no size is negative or above the
// maximum, and that large numbers do not make the planner use much memory.
func FuzzPlansContainNoSizeOutOfRange(f *testing.F) {
	const most = math.MaxInt32
	add := func(e extremes) {
		f.Add(e.replicas, e.last, e.stored, e.minReady, e.history, e.series, e.surge, e.unavailable, e.annotation, e.strategy, e.paused)
	}
	add(extremes{replicas: 3, surge: "1", unavailable: "0", annotation: "3"})
	for strategy := range uint8(3) {
		for _, paused := range []bool{false, true} {
			add(extremes{v1alpha1.MaxReplicas, most, most, most, most, most, "1000000%", "100%", "1", strategy, paused})
			add(extremes{v1alpha1.MaxReplicas, most, most, most, most, most, "2147483647", "2147483647", strconv.Itoa(most), strategy, paused})
			add(extremes{1, 0, most, most, 0, 0, "99999999999999999999%", "0%", "-2147483648", strategy, paused})
			add(extremes{-1, most, most, 0, 0, 0, "18446744073709551615%", "1", "0", strategy, paused})
			add(extremes{-1, math.MinInt32, math.MinInt32, math.MinInt32, math.MinInt32, math.MinInt32, "-1", "-5%", "-1", strategy, paused})
			add(extremes{2_000_000_000, most, most, most, most, most, "25%", "1", "2000000000", strategy, paused})
		}
	}
	f.Fuzz(func(t *testing.T, replicas, last, stored, minReady, history, series int32, surge, unavailable, annotation string, strategy uint8, paused bool) {
		e := extremes{replicas, last, stored, minReady, history, series, surge, unavailable, annotation, strategy, paused}
		s := e.snapshot()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := Compute(s)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("Compute() used %d bytes", n)
		}
		if too := replicas > v1alpha1.MaxReplicas; too && !errors.Is(err, ErrSizeTooLarge) {
			t.Errorf("Compute() plans the size %d: %v", replicas, err)
		}
		if err != nil {
			return
		}
		for _, size := range sizesOf(p) {
			if size < 0 || size > 2*v1alpha1.MaxReplicas {
				t.Errorf("Compute() gives a set the size %d: %v", size, p.Steps)
			}
		}
		if p.Replicas < 0 || p.Replicas > v1alpha1.MaxReplicas || p.Status.UnavailableReplicas < 0 || p.Replacing < 0 || p.RequeueAfter < 0 {
			t.Errorf("Compute() = %+v", p)
		}
	})
}

// sizesOf returns the sizes of sets that a plan writes.
func sizesOf(p Plan) (sizes []int32) {
	for _, c := range p.Changes {
		sizes = append(sizes, c.Replicas)
	}
	if p.Create != nil {
		sizes = append(sizes, *p.Create.Spec.Replicas)
	}
	return sizes
}
