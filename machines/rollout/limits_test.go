package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// busy is a deployment that an operator and the autoscaler change all the time. Its sets follow within seconds, but the drains of its
// Machines may take arbitrarily long.
type busy struct {
	*simulation
	t *rapid.T
	// former is the largest maximum of living Machines that a change has lowered within the last minute. The test allows that many Machines
	// up to the time in the field until.
	former int
	until  time.Time
}

func TestTheLivingMachinesOfADeploymentNeverExceedSizePlusSurge(t *testing.T) {
	t.Run("for one minute after a change lowers size plus surge, the earlier value is the limit, however slowly Machines drain (MCM-73, MCM-74)", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s := shape{
				replicas:    rapid.Int32Range(0, 12).Draw(t, "replicas"),
				surge:       rapid.SampledFrom([]string{"0", "1", "3", "25%", "100%"}).Draw(t, "surge"),
				unavailable: rapid.SampledFrom([]string{"0", "1", "3", "50%"}).Draw(t, "unavailable"),
			}
			b := &busy{simulation: newSimulation(s), t: t}
			b.d.Spec.Strategy.Type = rapid.SampledFrom([]v1alpha1.StrategyType{v1alpha1.RollingUpdate, v1alpha1.RollingUpdate, v1alpha1.Recreate, v1alpha1.OnDelete}).Draw(t, "strategy")
			b.slow = rapid.Bool().Draw(t, "drains never end")
			b.onMake = func(*v1alpha1.MachineSet) { b.check() }
			for range rapid.IntRange(1, 40).Draw(t, "rounds") {
				b.round()
			}
		})
	})
}

// round makes up to three changes. After each change one actor may act, and in the end the planner, the sets and the Machines act. A round
// takes ten seconds of the simulated time.
func (b *busy) round() {
	for range rapid.IntRange(0, 3).Draw(b.t, "changes") {
		before := b.most()
		b.change()
		if after := b.most(); after < before {
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

// one makes one actor act, chosen at random: the planner or one of the sets.
func (b *busy) one() {
	n := rapid.IntRange(0, len(b.sets)).Draw(b.t, "who acts")
	if n == len(b.sets) {
		b.plan()
		return
	}
	b.act(b.sets[n])
}

// change makes one change of the kind that an operator or the autoscaler makes.
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

// most returns how many living Machines the deployment may have once its sets have their sizes.
func (b *busy) most() int {
	l, err := limitsOf(b.d, *b.d.Spec.Replicas)
	if err != nil {
		b.t.Fatal(err)
	}
	return int(*b.d.Spec.Replicas + l.surge)
}

// check fails the test when there are more living Machines than the largest maximum of the last minute.
func (b *busy) check() {
	most := b.most()
	if !b.now.After(b.until) {
		most = max(most, b.former)
	}
	if living, _, _ := b.count(); int(living) > most {
		b.t.Fatalf("%d Machines are living, the bound is %d (size %d, sizes of sets %s)", living, most, *b.d.Spec.Replicas, b.sizes())
	}
}

func TestHowDroverReadsMaxSurgeAndMaxUnavailable(t *testing.T) {
	tests := map[string]struct {
		surge, unavailable string
		replicas           int32
		want               limits
	}{
		"rounds maxSurge up and maxUnavailable down (MC-15)":                               {"25%", "25%", 10, limits{3, 2}},
		"raises maxUnavailable to 1 when maxSurge and maxUnavailable are 0 (MC-15, MCM-9)": {"0", "0", 3, limits{0, 1}},
		"raises maxUnavailable to 1 when the percentages round to 0 (CAPI-46)":             {"0%", "10%", 4, limits{0, 1}},
		"limits maxUnavailable to the size (MC-15)":                                        {"0", "7", 3, limits{0, 3}},
		"allows no unavailable Machine at size 0 (MC-15)":                                  {"0", "1", 0, limits{0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newSimulation(shape{tt.replicas, tt.surge, tt.unavailable}).d
			if got, err := limitsOf(d, tt.replicas); err != nil || got != tt.want {
				t.Errorf("limitsOf() = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	t.Run("reads a value that is text without a percent sign as a percentage, as machine-controller does (F-55)", func(t *testing.T) {
		w := newSimulation(shape{10, "1", "0"})
		w.d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("25"))
		w.d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("50"))
		if got, err := limitsOf(w.d, 10); err != nil || got != (limits{3, 5}) {
			t.Errorf("limitsOf() = %+v, %v; want 3 and 5", got, err)
		}
		if _, err := Compute(w.snapshot()); err != nil {
			t.Errorf("limitsOf() returned an error: %v", err)
		}
	})
	t.Run("uses maxSurge 1 and maxUnavailable 0 when the deployment has no strategy (MC-1, MCM-22b)", func(t *testing.T) {
		if got, err := limitsOf(&v1alpha1.MachineDeployment{}, 3); err != nil || got != (limits{1, 0}) {
			t.Errorf("limitsOf() = %+v, %v", got, err)
		}
	})
}

func TestAnExtremeMaxSurgeIsLimited(t *testing.T) {
	for _, tt := range []struct {
		surge             string
		size, want, floor int32
	}{
		{"1000000%", 10, v1alpha1.MaxReplicas, 10},
		{"1000000%", 0, 0, 0},
		{"99999999999999999999999%", 1, v1alpha1.MaxReplicas, 1},
		{"2147483647", 3, v1alpha1.MaxReplicas, 3},
		{"150%", 3, 5, 3},
	} {
		t.Run(fmt.Sprintf("a maxSurge of %s allows %[3]d additional Machines when the size is %[2]d (F-29)", tt.surge, tt.size, tt.want), func(t *testing.T) {
			d := &v1alpha1.MachineDeployment{}
			d.Spec.Strategy = &v1alpha1.MachineDeploymentStrategy{RollingUpdate: &v1alpha1.MachineRollingUpdate{MaxSurge: limit(tt.surge), MaxUnavailable: limit("0")}}
			got, err := limitsOf(d, tt.size)
			if err != nil || got.surge != tt.want || tt.size-got.unavailable > tt.floor {
				t.Errorf("limitsOf() = %+v, %v", got, err)
			}
		})
	}
}

func TestATooLargeSizeIsRefusedOrCorrected(t *testing.T) {
	t.Run("a deployment's size above 100,000 is refused with the reason SizeTooLarge (F-29)", func(t *testing.T) {
		_, err := Compute(extremes{replicas: 100_001, surge: "1", unavailable: "0", annotation: "1"}.snapshot())
		if err == nil || ReasonOf(err) != ReasonSizeTooLarge {
			t.Errorf("%v", err)
		}
	})
	t.Run("a rollout lowers a set's size above 100,000 to at most 100,000 (F-29)", func(t *testing.T) {
		p, err := Compute(extremes{replicas: 3, stored: 2_000_000_000, surge: "1", unavailable: "0", annotation: "3"}.snapshot())
		if err != nil || len(p.Changes) != 2 {
			t.Fatalf("Compute() = %+v, %v", p.Steps, err)
		}
		for _, c := range p.Changes {
			if c.Replicas > v1alpha1.MaxReplicas {
				t.Errorf("set %s gets the size %d", c.Set.Name, c.Replicas)
			}
		}
	})
}

func TestThePlannerChecksTheSpecOfADeployment(t *testing.T) {
	tests := map[string]func(*v1alpha1.MachineDeployment){
		"refuses a deployment whose selector does not match the labels of its template (MCM-1)": func(d *v1alpha1.MachineDeployment) { d.Spec.Selector.MatchLabels["x"] = "y" },
		"refuses a deployment with an empty selector (MCM-1)":                                   func(d *v1alpha1.MachineDeployment) { d.Spec.Selector = metav1.LabelSelector{} },
		"refuses a deployment with an unknown strategy (MCM-2)":                                 func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.Type = "Sideways" },
		"refuses a deployment with a negative size (MC-2)":                                      func(d *v1alpha1.MachineDeployment) { n := int32(-1); d.Spec.Replicas = &n },
		"refuses a deployment with a maxUnavailable of more than 100 % (MC-2)": func(d *v1alpha1.MachineDeployment) {
			v := intstr.Parse("101%")
			d.Spec.Strategy.RollingUpdate.MaxUnavailable = &v
		},
		"refuses a deployment with a maxSurge that is not a number (MC-2)": func(d *v1alpha1.MachineDeployment) {
			v := intstr.Parse("some")
			d.Spec.Strategy.RollingUpdate.MaxSurge = &v
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(shape{3, "1", "0"})
			change(w.d)
			if p, err := Compute(w.snapshot()); err == nil {
				t.Errorf("Compute() returned no error: %v", p.Steps)
			}
		})
	}
}
