package rollout

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestMostLiving(t *testing.T) {
	for name, tt := range map[string]struct {
		size, last *int32
		surge      string
		most       int
		known      bool
	}{
		"size and surge (MCM-70)":                                 {ptr.To[int32](5), nil, "2", 7, true},
		"a percentage is rounded up (MCM-70)":                     {ptr.To[int32](5), nil, "25%", 7, true},
		"a surge of 0 (MCM-70)":                                   {ptr.To[int32](5), nil, "0", 5, true},
		"without a size the last one counts (MCM-75)":             {nil, ptr.To[int32](3), "1", 4, true},
		"without any nothing is known (MCM-75)":                   {nil, nil, "1", 0, false},
		"a negative size is none (MCM-75)":                        {ptr.To[int32](-1), nil, "1", 0, false},
		"a surge that cannot be read is that of all (MCM-75)":     {ptr.To[int32](5), nil, "many", 10, true},
		"a surge that cannot be read, of a size of none (MCM-75)": {ptr.To[int32](0), nil, "many", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(shape{1, "0", "1"})
			w.d.Spec.Replicas, w.d.Status.LastReplicas = tt.size, tt.last
			w.d.Spec.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.Parse(tt.surge))
			if most, known := MostLiving(w.d); most != tt.most || known != tt.known {
				t.Errorf("got %d, known %v, want %d, %v", most, known, tt.most, tt.known)
			}
		})
	}
}

// busy is a deployment that people and the autoscaler change all the time, whose sets follow within seconds and whose Machines
// may drain for as long as they like.
type busy struct {
	*world
	t *rapid.T
	// former is the largest bound of the last minute.
	former int
	until  time.Time
}

func TestLivingMachinesStayWithinTheBound(t *testing.T) {
	t.Run("in any rollout and scaling with slow drains there are never more living Machines than size and surge were within the last minute (MCM-73, MCM-74)", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := shape{
				replicas:    rapid.Int32Range(0, 12).Draw(t, "replicas"),
				surge:       rapid.SampledFrom([]string{"0", "1", "3", "25%", "100%"}).Draw(t, "surge"),
				unavailable: rapid.SampledFrom([]string{"0", "1", "3", "50%"}).Draw(t, "unavailable"),
			}
			b := &busy{world: newWorld(s), t: t}
			b.d.Spec.Strategy.Type = rapid.SampledFrom([]v1alpha1.StrategyType{v1alpha1.RollingUpdate, v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete}).Draw(t, "strategy")
			b.slow = rapid.Bool().Draw(t, "drains never end")
			b.onMake = func(*v1alpha1.MachineSet) { b.check() }
			for range rapid.IntRange(1, 40).Draw(t, "rounds") {
				b.round()
			}
		})
	})
}

// round lets something happen, then everybody act in any order, which takes ten seconds.
func (b *busy) round() {
	for range rapid.IntRange(0, 3).Draw(b.t, "changes") {
		before, _ := MostLiving(b.d)
		b.change()
		if after, _ := MostLiving(b.d); after < before {
			if b.now.After(b.until) {
				b.former = 0
			}
			b.former, b.until = max(b.former, before), b.now.Add(time.Minute)
		}
		b.check()
		if rapid.Bool().Draw(b.t, "one acts between") {
			b.one()
		}
	}
	for range 2 {
		b.plan()
		for _, set := range slices.Clone(b.sets) {
			b.act(set)
			b.check()
		}
	}
	for _, m := range slices.Clone(b.machines) {
		if rapid.IntRange(0, 2).Draw(b.t, "moves on") > 0 {
			b.advance(m)
		}
	}
	b.now = b.now.Add(10 * time.Second)
}

// one lets the planner or one set act.
func (b *busy) one() {
	n := rapid.IntRange(0, len(b.sets)).Draw(b.t, "who acts")
	if n == len(b.sets) {
		b.plan()
		return
	}
	b.act(b.sets[n])
}

// change is what people and the autoscaler do.
func (b *busy) change() {
	switch rapid.IntRange(0, 4).Draw(b.t, "change") {
	case 0:
		b.template(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(b.t, "template"))
	case 1:
		b.scale(rapid.Int32Range(0, 20).Draw(b.t, "replicas"))
	case 2, 3:
		if len(b.machines) == 0 {
			return
		}
		m := b.machines[rapid.IntRange(0, len(b.machines)-1).Draw(b.t, "machine")]
		if rapid.Bool().Draw(b.t, "by name") && m.DeletionTimestamp.IsZero() && *b.d.Spec.Replicas > 0 && !uidsOf(b.d.Spec.Removals)[m.UID] {
			b.remove(m)
			return
		}
		b.delete(m)
	case 4:
		b.d.Spec.Paused = !b.d.Spec.Paused
	}
}

// check fails when there are more living Machines than the bound was within the last minute.
func (b *busy) check() {
	most, _ := MostLiving(b.d)
	if !b.now.After(b.until) {
		most = max(most, b.former)
	}
	if living, _, _ := b.count(); int(living) > most {
		b.t.Fatalf("%d are living, and the bound is %d (size %d, sizes of sets %s)", living, most, *b.d.Spec.Replicas, b.sizes())
	}
}
