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

// Run is a scenario, from nothing to Ready nodes and back, in a world that follows from the seed.
type Run struct {
	Catalog  *memory.Catalog
	Scenario Scenario
	Seed     uint64
	// Crash is where the first process dies; nil: nowhere.
	Crash *process.Point
	// Failing has calls fail, while the process goes on; nil: none.
	Failing *process.Failing
	// Trouble is what happens to drover's watches; nil: nothing.
	Trouble *world.Trouble
	// Usual is how long the run takes without a failure; 0: not known. With Failing or Trouble, a run that takes much longer is an
	// error.
	Usual time.Duration
	// Again is after how many calls the second process dies too; 0: it does not.
	Again int
}

// Outcome is how a run went.
type Outcome struct {
	// Calls are those of the first process, in order.
	Calls []process.Point
	// Crashed: the fault point was reached.
	Crashed bool
	// Took is how long the run took, in virtual time.
	Took time.Duration
	// Steps are the changes of objects since the first process was started. Watched are the kinds that it watched (plural names).
	Steps   []world.Step
	Watched []string
	// Troubled: the trouble of the watches has begun.
	Troubled bool
	// Deleting is how many calls had been made when the first Machine was deleted.
	Deleting int
}

// Do plays the run. An error says which invariant does not hold. It must be called inside a bubble of testing/synctest.
func (r Run) Do() (out Outcome, err error) {
	options := r.Scenario.world
	options.Catalog, options.Seed, options.Trouble = r.Catalog, r.Seed, r.Trouble
	w, err := world.New(options)
	if err != nil {
		return out, fmt.Errorf("making the world: %w", err)
	}
	h := &harness{World: w, run: r, random: rand.New(rand.NewPCG(r.Seed, 2))}
	if r.Scenario.before != nil {
		if err := r.Scenario.before(h); err != nil {
			w.Close()
			return out, err
		}
	}
	first := w.Kube.Revision()
	h.process = process.Start(w, process.Options{Crash: r.Crash, Stale: r.Scenario.stale, HoldBack: r.Scenario.holdBack, Failing: r.Failing})
	h.start = time.Now()
	defer func() {
		h.process.Stop()
		h.keepCalls()
		out = Outcome{
			Calls: h.calls, Crashed: h.crashes > 0, Took: h.end.Sub(h.start), Deleting: h.deleting,
			Steps: w.Steps(first), Watched: watched(h.calls), Troubled: w.Troubled(),
		}
		w.Close()
	}()
	err = r.Scenario.play(h)
	h.end = time.Now()
	return out, err
}

// watched returns the kinds that calls watch, in order.
func watched(made []process.Point) (kinds []string) {
	for _, p := range made {
		if kind, ok := calls.Watched(p.Call); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
