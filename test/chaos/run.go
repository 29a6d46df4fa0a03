package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/drover-project/drover/test/chaos/calls"
	"github.com/drover-project/drover/test/chaos/process"
	"github.com/drover-project/drover/test/chaos/world"
	"github.com/drover-project/drover/test/kube/memory"
)

// Run is one scenario, from creating Machines to deleting them, in the world of a seed and with at most one fault.
type Run struct {
	Catalog  *memory.Catalog
	Scenario Scenario
	Seed     uint64
	// Crash is the fault point at which the first process dies. Nil means that there is none.
	Crash *process.Point
	// Failing makes calls fail while the process continues. Nil means that no call fails.
	Failing *process.Failing
	// DisturbedWatch disturbs drover's watches. Nil means that no watch is disturbed.
	DisturbedWatch *world.DisturbedWatch
	// Usual is how long the run takes without a fault, or 0 if unknown. With Failing or DisturbedWatch, a run that
	// takes much longer is an error.
	Usual time.Duration
	// Again is the number of calls after which the second process dies, too. 0 means never.
	Again int
	// Leader ends the first process in the middle of the scenario's change, and disturbs the lists of servers. Only scenarios of Changes
	// have a change. Nil means neither.
	Leader *LeaderFault
}

// Outcome is the result of a run.
type Outcome struct {
	// Calls holds the calls of the first process, in order.
	Calls []process.Point
	// Crashed is true when the fault point was reached.
	Crashed bool
	// Took is how long the run took, in virtual time.
	Took time.Duration
	// Steps holds the changes of objects since the start of the first process. Watched holds the plural names of the
	// kinds that the first process watched.
	Steps   []world.Step
	Watched []string
	// DisturbanceBegan is true when the disturbance of the watches has begun.
	DisturbanceBegan bool
	// Deleting is the number of calls that the first process made before the first Machine was deleted.
	Deleting int
}

// Do executes the run. It returns an error when an invariant does not hold or a goal is not reached. It must be called inside a
// synctest bubble.
func (r Run) Do() (out Outcome, err error) {
	options := r.Scenario.world
	options.Catalog, options.Seed, options.DisturbedWatch = r.Catalog, r.Seed, r.DisturbedWatch
	w, err := world.New(options)
	if err != nil {
		return out, fmt.Errorf("creating the world: %w", err)
	}
	h := &harness{World: w, run: r, random: rand.New(rand.NewPCG(r.Seed, 2))}
	if r.Scenario.before != nil {
		if err := r.Scenario.before(h); err != nil {
			w.Close()
			return out, err
		}
	}
	first := w.Kube.Revision()
	h.process = process.Start(w, r.first())
	h.start = time.Now()
	defer func() {
		h.process.Stop()
		h.recordCalls()
		out = Outcome{
			Calls: h.calls, Crashed: h.crashes > 0, Took: h.end.Sub(h.start), Deleting: h.deleting,
			Steps: w.Steps(first), Watched: watched(h.calls), DisturbanceBegan: w.DisturbanceBegan(),
		}
		w.Close()
	}()
	err = r.Scenario.script(h)
	h.end = time.Now()
	return out, err
}

// first returns the options of the first process.
func (r Run) first() process.Options {
	o := process.Options{Crash: r.Crash, Stale: r.Scenario.stale, HoldBack: r.Scenario.holdBack, Failing: r.Failing}
	if r.Leader != nil {
		o.Stale, o.Stops = r.Leader.Ending.stale, r.Leader.Ending.stops
	}
	return o
}

// watched returns the kinds that these calls watch, in order.
func watched(made []process.Point) (kinds []string) {
	for _, p := range made {
		if kind, ok := calls.Watched(p.Call); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
