package chaos_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/chaos/world"
	"github.com/drover-project/drover/test/sample"
)

var (
	watchStride = flag.Int("watch-stride", sample.Or(5981, 127), "try every nth disturbed watch")
	watch       = flag.Int("watch", -1, "try only the disturbed watch of this number (a failed test prints it)")
)

func TestEveryMachineReachesItsFinalStateDespiteADisturbedWatch(t *testing.T) {
	var runs atomic.Int64
	begin := time.Now()
	t.Cleanup(func() { t.Logf("%d runs in %v", runs.Load(), time.Since(begin).Round(time.Millisecond)) })
	for i, s := range chaos.WatchScenarios() {
		if *scenario >= 0 && *scenario != i {
			continue
		}
		t.Run("watches are disturbed while "+s.Name, func(t *testing.T) {
			for _, seed := range worlds() {
				w := watches{scenario: s, number: i, seed: seed, runs: &runs}
				t.Run(fmt.Sprintf("the random seed is %d", seed), w.test)
			}
		})
	}
}

// watches tests the disturbed watches of one scenario with one seed.
type watches struct {
	scenario chaos.Scenario
	number   int
	seed     uint64
	runs     *atomic.Int64
}

func (w watches) test(t *testing.T) {
	t.Parallel()
	clean := cleanRun(t, chaos.Run{Seed: w.seed, Scenario: w.scenario})
	n := 0
	for at, step := range clean.Steps {
		for _, kind := range clean.Watched {
			for _, how := range world.Disturbances() {
				if !how.Concerns(kind, clean.Steps[at:], clean.Watched) {
					continue
				}
				i := n
				n++
				if *watch == i || *watch < 0 && (i+int(w.seed))%w.scenario.Stride(*watchStride) == 0 {
					disturbed := world.DisturbedWatch{From: step.Revision, Resource: kind, How: how}
					t.Run(fmt.Sprintf("drover recovers when, after change number %d of the run, the watch of %s %s (run only this case with -watch=%d)", at+1, kind, how.Name, i), func(t *testing.T) { w.one(t, i, disturbed, clean) })
				}
			}
		}
	}
	t.Logf("%d disturbances, %d changes, %v, watched kinds %v", n, len(clean.Steps), clean.Took, clean.Watched)
}

func (w watches) one(t *testing.T, i int, disturbed world.DisturbedWatch, clean chaos.Outcome) {
	t.Parallel()
	w.runs.Add(1)
	repeat := fmt.Sprintf("go test ./test/chaos -run ADisturbedWatch -scenario=%d -seed=%d -watch=%d", w.number, w.seed, i)
	for range tries {
		out, err := execute(t, chaos.Run{Seed: w.seed, Scenario: w.scenario, DisturbedWatch: &disturbed, Usual: clean.Took})
		if err != nil {
			t.Fatalf("%v\nrepeat it with: %s", err, repeat)
		}
		if out.DisturbanceBegan {
			return
		}
	}
	t.Errorf("none of %d runs reached the change at which the disturbance begins\nrepeat it with: %s", tries, repeat)
}
