package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/periodic"
)

// trimEvery is how often memory that is unused after a burst is returned to the operating system. Otherwise a quiet process
// keeps the memory that a thousand new Machines took, because the runtime returns memory only when it collects garbage.
const trimEvery = time.Minute

// fewest is how much memory must be unused, in bytes, before a garbage collection is worth its cost.
const fewest = 8 << 20

// gcPercent is the GOGC value that drover uses when the environment does not set GOGC: how much garbage there may be, in percent
// of the memory in use, before it is collected. A value below Go's default of 100 reduces the memory that a burst of new
// Machines needs, and its fragmentation, at the cost of about a millisecond of processor time for each new Machine.
const gcPercent = 60

// collectMore makes Go collect garbage more often than by default.
func collectMore() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// trimmer returns unused memory to the operating system.
type trimmer struct {
	clock clock.WithTicker
	held  func() (inUse, mapped uint64)
	trim  func()
}

func newTrimmer(c clock.WithTicker) *trimmer {
	return &trimmer{clock: c, held: held, trim: debug.FreeOSMemory}
}

// addTrimmer adds the trimmer, unless other drovers have run in this process, as in tests in virtual time. There the trimmer
// would collect garbage once in every simulated minute.
func addTrimmer(mgr manager.Manager, around surroundings) error {
	if around.several {
		return nil
	}
	return mgr.Add(newTrimmer(clock.RealClock{}))
}

// NeedLeaderElection returns false, because every replica trims its memory.
func (*trimmer) NeedLeaderElection() bool { return false }

// Start checks the memory every trimEvery until ctx ends.
func (t *trimmer) Start(ctx context.Context) error {
	periodic.After(ctx, t.clock, trimEvery, func(context.Context) {
		if inUse, mapped := t.held(); worthTrimming(inUse, mapped) {
			t.trim()
		}
	})
	return nil
}

// worthTrimming reports whether trimming is worth its cost: the unused memory exceeds both the constant fewest and half of the
// memory in use.
func worthTrimming(inUse, mapped uint64) bool {
	return mapped > inUse+max(fewest, inUse/2)
}

// held returns how many bytes of the heap were in use after the last collection, and how many bytes the heap now takes from the
// operating system.
func held() (inUse, mapped uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for _, s := range samples[1:] {
		mapped += s.Value.Uint64()
	}
	return samples[0].Value.Uint64(), mapped
}
