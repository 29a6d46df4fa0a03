// Package gate holds what a call meets before it reaches a service: the log, faults that tests ask for, rate limits, and the
// pace of each kind of call. Each has a lock of its own. It knows no service.
package gate

import (
	"slices"
	"sync"
	"time"
)

// Call is one call to the cloud's API, as the cloud saw it.
type Call struct {
	// Time is when it came in.
	Time time.Time
	// Service is identity, compute, network, image or volume; empty for a path that belongs to none.
	Service string
	// Method and Path: Path is a template without the service's own prefix, such as /servers or /servers/{id}.
	Method, Path string
	// Project is the name of the project of the call's token; empty when no token was needed or the call was refused before the
	// token was read.
	Project string
	// Status is what was answered, or would have been when the reply was dropped; 0 when the call was never carried out.
	Status int
	// Duration is from the call to its answer, on the cloud's clock.
	Duration time.Duration
}

// Name is method and template, such as `POST /servers`.
func (c Call) Name() string { return c.Method + " " + c.Path }

// maxCalls is how many calls are remembered one by one; older ones are only counted.
const maxCalls = 100_000

// callKind is what calls are counted by.
type callKind struct{ service, name string }

// Log counts calls and remembers the last of them.
type Log struct {
	mu       sync.Mutex
	done     []Call
	counts   map[callKind]int
	inFlight int
	peak     int
}

// add remembers a call that has ended. The lock is held.
func (l *Log) add(call Call) {
	if l.counts == nil {
		l.counts = map[callKind]int{}
	}
	l.counts[callKind{call.Service, call.Name()}]++
	if len(l.done) >= 2*maxCalls {
		l.done = slices.Clone(l.done[len(l.done)-maxCalls:])
	}
	l.done = append(l.done, call)
}

// All returns the calls that have ended, in that order: all of them, or at least the last hundred thousand.
func (l *Log) All() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done)
}

// Count returns how many calls have ended; given names (`POST /servers`) or services (`compute`), how many of those.
func (l *Log) Count(which ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for kind, count := range l.counts {
		if len(which) == 0 || slices.Contains(which, kind.name) || slices.Contains(which, kind.service) {
			n += count
		}
	}
	return n
}

// ByName counts the calls that have ended by name, such as `POST /servers`.
func (l *Log) ByName() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for kind, count := range l.counts {
		out[kind.name] += count
	}
	return out
}

// Forget empties the log.
func (l *Log) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done, l.counts, l.peak = nil, nil, l.inFlight
}

// Most returns the largest number of calls that were in hand at once since the log was last emptied.
func (l *Log) Most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak
}

// Enter counts a call that came in.
func (l *Log) Enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight++
	l.peak = max(l.peak, l.inFlight)
}

// Leave counts a call that has ended.
func (l *Log) Leave(call Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.add(call)
}
