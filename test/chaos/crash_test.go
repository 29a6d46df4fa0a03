package chaos_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/kube/memory"
)

var (
	seeds    = flag.Uint64("seeds", 1, "how many worlds every crash point is tried in")
	stride   = flag.Int("stride", 7, "of the longer scenarios try every nth crash point, of the first every fifth part of that")
	seed     = flag.Int64("seed", -1, "try this world alone")
	scenario = flag.Int("scenario", -1, "try this scenario alone")
	crash    = flag.Int("crash", -1, "try this crash point alone (as a failure names it)")
)

// catalog is shared by all worlds.
var catalog *memory.Catalog

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	objects, err := deploy.Objects("crds")
	if err == nil {
		catalog, err = memory.NewCatalog(objects...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Thousands of small worlds are made and dropped.
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// worlds returns the seeds to try.
func worlds() []uint64 {
	if *seed >= 0 {
		return []uint64{uint64(*seed)}
	}
	var out []uint64
	for s := range *seeds {
		out = append(out, s)
	}
	return out
}

// play does one run in a bubble of its own.
func play(t *testing.T, r chaos.Run) (out chaos.Outcome, err error) {
	t.Helper()
	r.Catalog = catalog
	synctest.Test(t, func(*testing.T) { out, err = r.Do() })
	return out, err
}

// tries is how often a run is repeated to see again what was seen once. Nearly every run is the same each time; what is
// left to chance is which of two that are ready in the same instant the process itself takes first.
const tries = 6

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	for _, s := range worlds() {
		for _, scenario := range chaos.Scenarios() {
			seen := map[string]int{}
			for range tries {
				out, err := play(t, chaos.Run{Seed: s, Scenario: scenario})
				if err != nil {
					t.Fatalf("%s, seed %d: %v", scenario.Name, s, err)
				}
				seen[fmt.Sprint(out.Calls)]++
			}
			if most := slices.Max(slices.Collect(maps.Values(seen))); most <= tries/2 {
				t.Errorf("%s, seed %d: of %d runs no more than %d are the same", scenario.Name, s, tries, most)
			}
		}
	}
}

// points returns all fault points of a process that makes these calls.
func points(calls []process.Point) []process.Point {
	var out []process.Point
	for _, c := range calls {
		after := c
		after.After = true
		out = append(out, c, after)
	}
	return out
}

func TestAfterACrashAtAnyCall(t *testing.T) {
	var runs atomic.Int64
	begin := time.Now()
	t.Cleanup(func() { t.Logf("%d runs in %v", runs.Load(), time.Since(begin).Round(time.Millisecond)) })
	for i, s := range chaos.Scenarios() {
		if *scenario >= 0 && *scenario != i {
			continue
		}
		t.Run("CA-C79 CAPI-18 CAPI-19 MCM-36 there are as many servers as Machines, and in the end none: "+s.Name, func(t *testing.T) {
			for _, seed := range worlds() {
				c := crashes{scenario: s, number: i, seed: seed, every: s.Stride(*stride), runs: &runs}
				if i == 0 {
					c.every = max(1, *stride/5)
				}
				t.Run(fmt.Sprintf("seed %d", seed), c.test)
			}
		})
	}
}

// crashes are the crash points of one scenario in one world.
type crashes struct {
	scenario chaos.Scenario
	number   int
	seed     uint64
	every    int
	runs     *atomic.Int64
}

func (c crashes) test(t *testing.T) {
	t.Parallel()
	all := points(cleanRun(t, chaos.Run{Seed: c.seed, Scenario: c.scenario}).Calls)
	focus := c.scenario.FocusPoints(all)
	for i, p := range all {
		due := (i+int(c.seed))%c.every == 0
		if len(focus) > 0 {
			due = slices.Contains(focus, p)
		}
		if *crash == i || *crash < 0 && due {
			t.Run(fmt.Sprintf("crash %d %s", i, p), func(t *testing.T) { c.one(t, i, p) })
		}
	}
}

// cleanRun returns the outcome of a run without any fault. Two runs must be the same: the fault points of one that does not come
// again would never be reached.
func cleanRun(t *testing.T, r chaos.Run) chaos.Outcome {
	t.Helper()
	seen := map[string]bool{}
	for range tries {
		out, err := play(t, r)
		if err != nil {
			t.Fatalf("without any fault: %v", err)
		}
		calls := fmt.Sprint(out.Calls)
		if seen[calls] {
			return out
		}
		seen[calls] = true
	}
	t.Fatalf("no two of %d runs without any fault are the same", tries)
	return chaos.Outcome{}
}

func (c crashes) one(t *testing.T, i int, p process.Point) {
	t.Parallel()
	c.runs.Add(1)
	repeat := fmt.Sprintf("go test ./test/chaos -run AfterACrash -scenario=%d -seed=%d -crash=%d", c.number, c.seed, i)
	for range tries {
		out, err := play(t, chaos.Run{Seed: c.seed, Scenario: c.scenario, Crash: &p, Again: again(c.seed, i)})
		if err != nil {
			t.Fatalf("%v\nrepeat it with: %s", err, repeat)
		}
		if out.Crashed {
			return
		}
	}
	t.Errorf("the crash never came in %d runs\nrepeat it with: %s", tries, repeat)
}

// again makes the second process of every third point die too, sooner or later.
func again(seed uint64, point int) int {
	if n := point + int(seed); n%3 == 0 {
		return 1 + (n*7)%40
	}
	return 0
}
