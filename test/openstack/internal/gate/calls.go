// Package gate holds what a call passes before it reaches a service: the log, faults that tests inject, rate limits, and the
// pace of each kind of call. Each of these has a lock of its own. The package has no notion of services.
package gate

import (
	"slices"
	"sync"
	"time"
)

// Call is one call to the cloud's API, as the cloud saw it.
type Call struct {
	// Time is when the call arrived.
	Time time.Time
	// Service is identity, compute, network, image or volume; empty for a path that belongs to none.
	Service string
	// Method and Path are the method and the path template without the service's prefix, such as /servers or /servers/{id}.
	Method, Path string
	// Project is the name of the project of the call's token. It is empty when the call needed no token, or was refused before
	// the token was read.
	Project string
	// Status is the status of the answer, even if the answer was dropped. It is 0 when the call was not carried out.
	Status int
	// Duration is the time from the call to its answer, on the cloud's clock.
	Duration time.Duration
}

// Name returns the method and the path template, such as `POST /servers`.
func (c Call) Name() string { return c.Method + " " + c.Path }

// maxCalls is how many calls the log stores individually. Older calls are only counted.
const maxCalls = 100_000

// callKind is the key by which calls are counted.
type callKind struct{ service, name string }

// Log counts calls and stores the most recent ones.
type Log struct {
	mu       sync.Mutex
	done     []Call
	counts   map[callKind]int
	inFlight int
	peak     int
}

// add stores a call that has ended. The caller holds the lock.
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

// All returns the calls that have ended, in the order in which they ended. When there are very many, it returns at least the
// last hundred thousand.
func (l *Log) All() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done)
}

// Count returns how many calls have ended. Its arguments restrict the count to calls with these names (`POST /servers`) or
// of these services (`compute`).
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

// ByName returns the number of calls that have ended, by name such as `POST /servers`.
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

// Most returns the largest number of concurrent calls since the log was last emptied.
func (l *Log) Most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak
}

// Enter counts a call that has arrived.
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
