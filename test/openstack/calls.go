package openstack

import (
	"slices"
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
	// Project is the name of the project whose token it bore; empty when none was needed or the call was refused before
	// it was looked at.
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

type callLog struct {
	done     []Call
	counts   map[callKind]int
	inFlight int
	peak     int
}

func (l *callLog) add(call Call) {
	if l.counts == nil {
		l.counts = map[callKind]int{}
	}
	l.counts[callKind{call.Service, call.Name()}]++
	if len(l.done) >= 2*maxCalls {
		l.done = slices.Clone(l.done[len(l.done)-maxCalls:])
	}
	l.done = append(l.done, call)
}

// Calls gives the calls that have ended, in that order: all of them, or at least the last hundred thousand. The metadata
// service's do not count.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls.done)
}

// CallCount says how many calls have ended; given names (`POST /servers`) or services (`compute`), how many of those.
func (c *Cloud) CallCount(which ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for kind, count := range c.calls.counts {
		if len(which) == 0 || slices.Contains(which, kind.name) || slices.Contains(which, kind.service) {
			n += count
		}
	}
	return n
}

// CallsByName counts the calls that have ended by name, such as `POST /servers`.
func (c *Cloud) CallsByName() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for kind, count := range c.calls.counts {
		out[kind.name] += count
	}
	return out
}

// ForgetCalls empties the log, so that a test counts from here.
func (c *Cloud) ForgetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.done, c.calls.counts, c.calls.peak = nil, nil, c.calls.inFlight
}

// PeakCalls is the largest number of calls that were in hand at once since the log was last emptied.
func (c *Cloud) PeakCalls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls.peak
}

// enter takes a call in, and gives the fault that it is to meet.
func (c *Cloud) enter(call *Call) Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.inFlight++
	c.calls.peak = max(c.calls.peak, c.calls.inFlight)
	return c.trouble.take(call)
}

func (c *Cloud) leave(call Call, status int) {
	call.Status, call.Duration = status, c.clock.Since(call.Time)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.inFlight--
	c.calls.add(call)
}
