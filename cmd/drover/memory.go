package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// trimEvery is how often memory that a burst has left unused is returned to the operating system. Otherwise a quiet process
// keeps what a thousand new Machines took, since the runtime returns memory only when it collects garbage.
const trimEvery = time.Minute

// fewest is how much must be unused, in bytes, for a collection to be worth its cost.
const fewest = 8 << 20

// gcPercent is how much garbage there may be, in percent of the memory in use, before it is collected, unless the environment
// sets GOGC. A value below Go's default of 100 keeps the memory for a burst of new Machines and its fragmentation small, at
// about a millisecond of processor time for each new Machine.
const gcPercent = 60

// collectMore has garbage collected more often than by default.
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

// addTrimmer adds the trimmer, unless other drovers run in this process. In virtual time it would collect garbage once for every
// simulated minute.
func addTrimmer(mgr manager.Manager, around surroundings) error {
	if around.several {
		return nil
	}
	return mgr.Add(newTrimmer(clock.RealClock{}))
}

// NeedLeaderElection returns false: every replica trims its memory.
func (*trimmer) NeedLeaderElection() bool { return false }

// Start checks every trimEvery until ctx ends.
func (t *trimmer) Start(ctx context.Context) error {
	ticker := t.clock.NewTicker(trimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if inUse, mapped := t.held(); worthTrimming(inUse, mapped) {
				t.trim()
			}
		}
	}
}

// worthTrimming reports whether the process holds more than one and a half times the memory in use.
func worthTrimming(inUse, mapped uint64) bool {
	return mapped > inUse+max(fewest, inUse/2)
}

// held returns how many bytes of the heap were in use after the last collection, and how many the heap takes from the operating
// system now.
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
