package chaos_test

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/sample"
)

var (
	failureStride = flag.Int("failure-stride", sample.Or(1499, 29), "try every nth failing call")
	failure       = flag.Int("failure", -1, "try only the failing call of this number (a failed test prints it)")
)

func TestEveryMachineReachesItsFinalStateAfterACallThatFails(t *testing.T) {
	var runs atomic.Int64
	begin := time.Now()
	t.Cleanup(func() { t.Logf("%d runs in %v", runs.Load(), time.Since(begin).Round(time.Millisecond)) })
	for i, s := range chaos.FailureScenarios() {
		if *scenario >= 0 && *scenario != i {
			continue
		}
		t.Run("a call fails while "+s.Name, func(t *testing.T) {
			for _, seed := range worlds() {
				f := failures{scenario: s, number: i, seed: seed, runs: &runs}
				t.Run(fmt.Sprintf("the random seed is %d", seed), f.test)
			}
		})
	}
}

// failures tests the failing calls of one scenario with one seed.
type failures struct {
	scenario chaos.Scenario
	number   int
	seed     uint64
	runs     *atomic.Int64
}

func (f failures) test(t *testing.T) {
	t.Parallel()
	clean := cleanRun(t, chaos.Run{Seed: f.seed, Scenario: f.scenario})
	n := 0
	for at, p := range clean.Calls {
		for _, how := range process.Failures() {
			if !how.Fits(p.Call) || f.scenario.OnlyDeletion() && (at < clean.Deleting || !promised(p.Call, how)) {
				continue
			}
			i := n
			n++
			if *failure == i || *failure < 0 && (i+int(f.seed))%f.scenario.Stride(*failureStride) == 0 {
				t.Run(fmt.Sprintf("drover recovers when call number %d of %s %s (run only this case with -failure=%d)", p.Nth, p.Call, how.Name, i), func(t *testing.T) { f.one(t, i, p, how, clean) })
			}
		}
	}
	t.Logf("%d ways to fail, %d calls, %v", n, len(clean.Calls), clean.Took)
}

// promised reports whether drover promises that a forced deletion ends in time although the named call fails. While a call to
// Kubernetes fails permanently, drover promises this only if the call lists or evicts pods.
func promised(call string, how process.Failure) bool {
	return !how.Lasting || !strings.HasPrefix(call, "kube ") || strings.HasPrefix(call, "kube POST pods") || call == "kube LIST pods"
}

func (f failures) one(t *testing.T, i int, p process.Point, how process.Failure, clean chaos.Outcome) {
	t.Parallel()
	f.runs.Add(1)
	repeat := fmt.Sprintf("go test ./test/chaos -run ACallThatFails -scenario=%d -seed=%d -failure=%d", f.number, f.seed, i)
	for range tries {
		failing := &process.Failing{At: p, How: how}
		_, err := execute(t, chaos.Run{Seed: f.seed, Scenario: f.scenario, Failing: failing, Usual: clean.Took})
		if err != nil {
			t.Fatalf("%v\nrepeat it with: %s", err, repeat)
		}
		if failing.Begun().IsZero() {
			continue
		}
		return
	}
	t.Errorf("none of %d runs made the failing call\nrepeat it with: %s", tries, repeat)
}
