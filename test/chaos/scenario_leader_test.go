package chaos_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/sample"
)

var (
	leaderStride = flag.Int("leader-stride", sample.Or(8009, 797), "try every nth end of a leader")
	leader       = flag.Int("leader", -1, "try only the end of a leader of this number (a failed test prints it)")
)

// leaderFaults returns all ways in which a leader may end before or after its nth call, and what may happen to lists meanwhile.
func leaderFaults(n int, after bool) (all []chaos.LeaderFault) {
	for _, ending := range chaos.Endings() {
		for i, lists := range chaos.AllLists() {
			all = append(all, chaos.LeaderFault{Ending: ending, Call: n, After: after, Lists: lists})
			if i > 0 {
				all = append(all, chaos.LeaderFault{Ending: ending, Call: n, After: after, Lists: lists, Late: true})
			}
		}
	}
	return all
}

func TestChangesOfManyMachinesEndWhenTheLeaderEnds(t *testing.T) {
	var runs, missed atomic.Int64
	begin := time.Now()
	t.Cleanup(func() {
		t.Logf("%d runs in %v, of which %d ended before the leader", runs.Load(), time.Since(begin).Round(time.Millisecond), missed.Load())
		if 4*missed.Load() > runs.Load() {
			t.Errorf("in %d of %d runs the change was over before the leader ended", missed.Load(), runs.Load())
		}
	})
	for i, s := range chaos.Changes() {
		if *scenario >= 0 && *scenario != i {
			continue
		}
		t.Run(s.Name+": all ends without a person, and nothing is held or left (F-59, CA-C79)", func(t *testing.T) {
			for _, seed := range worlds() {
				l := leaders{scenario: s, number: i, seed: seed, runs: &runs, missed: &missed}
				t.Run(fmt.Sprintf("the random seed is %d", seed), l.test)
			}
		})
	}
}

// leaders tests the ends of leaders in one scenario with one seed.
type leaders struct {
	scenario     chaos.Scenario
	number       int
	seed         uint64
	runs, missed *atomic.Int64
}

func (l leaders) test(t *testing.T) {
	t.Parallel()
	clean, err := execute(t, chaos.Run{Seed: l.seed, Scenario: l.scenario})
	if err != nil {
		t.Fatalf("run without a fault: %v", err)
	}
	n, points := 0, len(clean.Calls)-clean.Deleting
	for at := range 2 * points {
		for _, fault := range leaderFaults(1+at/2, at%2 == 1) {
			i := n
			n++
			if *leader == i || *leader < 0 && (i+int(l.seed))%*leaderStride == 0 {
				t.Run(fmt.Sprintf("the change ends when the leader %s (run only this case with -leader=%d)", fault, i), func(t *testing.T) { l.one(t, i, fault) })
			}
		}
	}
	t.Logf("%d ends of the leader, %d calls of %d in the change, %v", n, points, len(clean.Calls), clean.Took)
}

func (l leaders) one(t *testing.T, i int, fault chaos.LeaderFault) {
	t.Parallel()
	l.runs.Add(1)
	out, err := execute(t, chaos.Run{Seed: l.seed, Scenario: l.scenario, Leader: &fault})
	if err != nil {
		t.Fatalf("%v\nrepeat it with: go test ./test/chaos -run WhenTheLeaderEnds -scenario=%d -seed=%d -leader=%d", err, l.number, l.seed, i)
	}
	if !out.Crashed {
		l.missed.Add(1)
	}
}
