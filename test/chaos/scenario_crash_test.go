package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/chaos/process"
)

func TestMoreThanHalfOfAllRunsWithTheSameSeedMakeTheSameCallsSoThatFailuresCanBeRepeated(t *testing.T) {
	for _, s := range worlds() {
		for i, scenario := range chaos.Scenarios() {
			if i%*compared != 0 {
				continue
			}
			seen := map[string]int{}
			for range tries {
				out, err := execute(t, chaos.Run{Seed: s, Scenario: scenario})
				if err != nil {
					t.Fatalf("%s, seed %d: %v", scenario.Name, s, err)
				}
				seen[fmt.Sprint(out.Calls)]++
			}
			if most := slices.Max(slices.Collect(maps.Values(seen))); most <= tries/2 {
				t.Errorf("%s, seed %d: of %d runs only %d are equal, want more than half", scenario.Name, s, tries, most)
			}
		}
	}
}

func TestEveryMachineHasOneServerAfterACrashOrALossOfTheLeaseDuringACall(t *testing.T) {
	var runs atomic.Int64
	begin := time.Now()
	t.Cleanup(func() { t.Logf("%d runs in %v", runs.Load(), time.Since(begin).Round(time.Millisecond)) })
	for i, s := range chaos.Scenarios() {
		if *scenario >= 0 && *scenario != i {
			continue
		}
		t.Run(s.Name+": each running Machine has one working server, and no server is left in the end (CA-C79, CAPI-18, CAPI-19, MCM-36)", func(t *testing.T) {
			for _, seed := range worlds() {
				c := crashes{scenario: s, number: i, seed: seed, every: s.Stride(*stride), runs: &runs}
				if i == 0 {
					c.every = max(1, *stride/5)
				}
				t.Run(fmt.Sprintf("the random seed is %d", seed), c.test)
			}
		})
	}
}

// crashes tests the crash points of one scenario with one seed.
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
			t.Run(fmt.Sprintf("drover recovers from %s call number %d of %s (run only this case with -crash=%d)", c.scenario.Fault(p.After), p.Nth, p.Call, i), func(t *testing.T) { c.one(t, i, p) })
		}
	}
}

func (c crashes) one(t *testing.T, i int, p process.Point) {
	t.Parallel()
	c.runs.Add(1)
	repeat := fmt.Sprintf("go test ./test/chaos -run AfterACrash -scenario=%d -seed=%d -crash=%d", c.number, c.seed, i)
	for range tries {
		out, err := execute(t, chaos.Run{Seed: c.seed, Scenario: c.scenario, Crash: &p, Again: again(c.seed, i)})
		if err != nil {
			t.Fatalf("%v\nrepeat it with: %s", err, repeat)
		}
		if out.Crashed {
			return
		}
	}
	t.Errorf("none of %d runs reached the crash point\nrepeat it with: %s", tries, repeat)
}

// again returns the number of calls after which the restarted process crashes, too. It returns 0, which means no second
// crash, for two of three fault points.
func again(seed uint64, point int) int {
	if n := point + int(seed); n%3 == 0 {
		return 1 + (n*7)%40
	}
	return 0
}
