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

type callLog struct {
	done     []Call
	inFlight int
	peak     int
}

// Calls gives every call that has ended, in that order. The metadata service's do not count.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls.done)
}

// CallCount says how many calls have ended; given names (`POST /servers`) or services (`compute`), how many of those.
func (c *Cloud) CallCount(which ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(which) == 0 {
		return len(c.calls.done)
	}
	n := 0
	for _, call := range c.calls.done {
		if slices.Contains(which, call.Name()) || slices.Contains(which, call.Service) {
			n++
		}
	}
	return n
}

// CallsByName counts the calls that have ended by name, such as `POST /servers`.
func (c *Cloud) CallsByName() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int{}
	for _, call := range c.calls.done {
		out[call.Name()]++
	}
	return out
}

// ForgetCalls empties the log, so that a test counts from here.
func (c *Cloud) ForgetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.done, c.calls.peak = nil, c.calls.inFlight
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
	c.calls.done = append(c.calls.done, call)
}
