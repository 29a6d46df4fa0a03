package chaos_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/test/chaos"
	"github.com/drover-project/drover/test/chaos/process"
)

// worlds returns the seeds of the runs: the one of the flag -seed, or as many as the flag -seeds says.
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

// execute carries out one run in a synctest bubble of its own.
func execute(t *testing.T, r chaos.Run) (out chaos.Outcome, err error) {
	t.Helper()
	r.Catalog = catalog
	synctest.Test(t, func(*testing.T) { out, err = r.Do() })
	return out, err
}

// tries is how often a run is repeated until it reaches its fault point. Nearly every run makes the same calls each
// time. Only the order of two goroutines of the process that become ready in the same instant is random.
const tries = 6

// points returns all fault points of a process that makes the given calls: one before and one after each call.
func points(calls []process.Point) []process.Point {
	var out []process.Point
	for _, c := range calls {
		after := c
		after.After = true
		out = append(out, c, after)
	}
	return out
}

// cleanRun returns the outcome of a run without a fault. It fails unless two runs are equal, because the fault points
// of a run that cannot be repeated would never be reached.
func cleanRun(t *testing.T, r chaos.Run) chaos.Outcome {
	t.Helper()
	seen := map[string]bool{}
	for range tries {
		out, err := execute(t, r)
		if err != nil {
			t.Fatalf("run without a fault: %v", err)
		}
		calls := fmt.Sprint(out.Calls)
		if seen[calls] {
			return out
		}
		seen[calls] = true
	}
	t.Fatalf("no two of %d runs without a fault are equal", tries)
	return chaos.Outcome{}
}
