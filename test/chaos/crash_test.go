package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/kube/memory"
)

var (
	seeds = flag.Uint64("seeds", 2, "how many worlds every crash point is tried in")
	seed  = flag.Int64("seed", -1, "try this world alone")
	crash = flag.Int("crash", -1, "try this crash point alone (as a failure names it)")
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
	os.Exit(m.Run())
}

// worlds are the seeds to try.
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

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	for _, s := range worlds() {
		first, err := play(t, chaos.Run{Seed: s})
		if err != nil {
			t.Fatalf("seed %d: %v", s, err)
		}
		second, err := play(t, chaos.Run{Seed: s})
		if err != nil {
			t.Fatalf("seed %d: %v", s, err)
		}
		if a, b := fmt.Sprint(first.Calls), fmt.Sprint(second.Calls); a != b {
			t.Errorf("seed %d:\n%s\n%s", s, a, b)
		}
	}
}

// points are all moments at which a process that makes these calls can die.
func points(calls []chaos.Point) []chaos.Point {
	var out []chaos.Point
	for _, c := range calls {
		after := c
		after.After = true
		out = append(out, c, after)
	}
	return out
}

func TestCAPI18CAPI19MCM36AfterACrashAtAnyCallThereIsOneServerAndInTheEndNone(t *testing.T) {
	var runs atomic.Int64
	begin := time.Now()
	t.Cleanup(func() { t.Logf("%d runs in %v", runs.Load(), time.Since(begin).Round(time.Millisecond)) })
	for _, s := range worlds() {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			t.Parallel()
			clean, err := play(t, chaos.Run{Seed: s})
			if err != nil {
				t.Fatalf("without any crash: %v", err)
			}
			for i, p := range points(clean.Calls) {
				if *crash >= 0 && *crash != i {
					continue
				}
				runs.Add(1)
				t.Run(fmt.Sprintf("%d %s", i, p), func(t *testing.T) {
					t.Parallel()
					out, err := play(t, chaos.Run{Seed: s, Crash: &p, Again: again(s, i)})
					switch {
					case err != nil:
						t.Errorf("%v\nrepeat it with: go test ./test/chaos -run AfterACrash -seed=%d -crash=%d", err, s, i)
					case !out.Crashed:
						t.Errorf("the crash never came: the run is not the same twice (-seed=%d -crash=%d)", s, i)
					}
				})
			}
		})
	}
}

// again makes the second process of every third point die too, sooner or later.
func again(seed uint64, point int) int {
	if n := point + int(seed); n%3 == 0 {
		return 1 + (n*7)%40
	}
	return 0
}
