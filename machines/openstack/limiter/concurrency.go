package limiter

import (
	"math"
	"slices"
	"time"
)

const (
	// leastSamples make a window; more when more are in flight.
	leastSamples = 3
	// mostSamples bounds a window.
	mostSamples = 64
	// slack is the part of the limit that may queue at the endpoint: at least one request, so that the endpoint never
	// runs dry, and so much that the noise of real latencies is not taken for a queue.
	slack = 0.15
	// firstLook and nextLook are the times after which the unloaded latency is measured again. The first measurement
	// may have met a cold cache.
	firstLook = 10 * time.Second
	nextLook  = time.Minute
)

// Concurrency finds the knee of one kind of request: the number in flight beyond which an endpoint only grows slower
// (CAPI-17). It compares the latency under load with the unloaded one, which it measures now and then by pressing less;
// the difference is queueing. Make it with NewConcurrency.
type Concurrency struct {
	limit float64
	most  int
	// floor is the unloaded latency; 0: not measured yet.
	floor time.Duration
	// last is the latency of the last whole window.
	last time.Duration
	// doubling until the first sign of a queue.
	doubling bool

	window []time.Duration
	busy   int

	// looking: the unloaded latency is being measured, with what had been started before lookFrom left out.
	looking  bool
	lookFrom time.Time
	nextLook time.Time
	looks    int
}

// NewConcurrency starts with one request at a time and never goes beyond most.
func NewConcurrency(most int) *Concurrency {
	return &Concurrency{limit: 1, most: most, doubling: true, looking: true}
}

// Limit is how many requests may be in flight just now; at least 1.
func (c *Concurrency) Limit() int {
	if c.looking {
		return max(1, int(c.limit/4))
	}
	return max(1, min(c.most, int(math.Round(c.limit))))
}

// Period is the mean time between two answers when the limit is used; 0 while it is not known.
func (c *Concurrency) Period() time.Duration { return c.last / time.Duration(c.Limit()) }

// Done takes in a request that was answered now, after latency, with inFlight in flight when it was sent, itself
// included.
func (c *Concurrency) Done(now time.Time, latency time.Duration, inFlight int) {
	if c.looking {
		c.look(now, latency)
		return
	}
	c.window = append(c.window, latency)
	if inFlight >= c.Limit() {
		c.busy++
	}
	if len(c.window) < min(mostSamples, max(leastSamples, c.Limit())) {
		return
	}
	used := c.busy*2 >= len(c.window)
	c.last = c.close()
	c.floor = min(c.floor, c.last)
	c.adapt(used)
	if !now.Before(c.nextLook) {
		c.looking, c.lookFrom = true, now.Add(c.last)
	}
}

// look measures the unloaded latency.
func (c *Concurrency) look(now time.Time, latency time.Duration) {
	if now.Add(-latency).Before(c.lookFrom) {
		return
	}
	c.window = append(c.window, latency)
	if len(c.window) < leastSamples {
		return
	}
	c.floor = c.close()
	if c.looks == 0 {
		c.last = c.floor
	}
	c.looking = false
	c.looks++
	wait := firstLook
	if c.looks > 1 {
		wait = nextLook
	}
	c.nextLook = now.Add(max(wait, 100*c.floor))
}

// close ends the window and gives its median.
func (c *Concurrency) close() time.Duration {
	slices.Sort(c.window)
	median := c.window[len(c.window)/2]
	c.window, c.busy = c.window[:0], 0
	return max(median, 1)
}

// adapt sets the limit to what the endpoint works on at a time, and the slack. Without demand there is nothing to learn
// that would raise it.
func (c *Concurrency) adapt(used bool) {
	worked := c.limit * float64(c.floor) / float64(c.last)
	next := worked + max(1, slack*worked)
	switch {
	case next >= c.limit && !used:
		return
	case next >= c.limit && c.doubling && c.limit-worked < 0.5:
		next = 2 * c.limit
	case next < c.limit:
		c.doubling = false
		if next > c.limit/2 {
			next = (c.limit + next) / 2
		}
	default:
		c.doubling = false
	}
	c.limit = min(max(next, 1), float64(c.most))
}

// Failed takes in a request that got no answer, or was told that the endpoint cannot.
func (c *Concurrency) Failed() {
	c.limit = max(1, c.limit/2)
	c.doubling = false
	c.window, c.busy = c.window[:0], 0
}
