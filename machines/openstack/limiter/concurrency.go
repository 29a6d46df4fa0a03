package limiter

import (
	"math"
	"slices"
	"time"
)

const (
	// firstLimit is the limit before anything was measured. An endpoint that carries out one call after another has a short
	// queue then, whose latencies show that it is one; a faster one is found in one step less than from a limit of 1.
	firstLimit = 4
	// firstSamples and leastSamples are the least number of answers in a window, until the first sign of a queue and after it.
	// A window has more when more are in flight.
	firstSamples, leastSamples = 3, 10
	// mostSamples bounds a window.
	mostSamples = 64
	// slack is the part of the limit that may queue at the endpoint: at least one request, so that the endpoint never
	// runs dry, and so much that the noise of real latencies is not taken for a queue.
	slack = 0.3
	// lookSamples is how many answers measure the unloaded latency. Of these, sorted, the one at lookRank is it: one that is too
	// long lets a few more requests queue, one that is too short keeps the endpoint from being used.
	lookSamples, lookRank = 5, 3
	// sink is the weight of a window that is faster than the unloaded latency. Few answers may be so by chance.
	sink = 0.125
	// noQueue is the part of the limit that the endpoint must work on at a time for the limit to be doubled. The rest is
	// what the noise of a few real latencies may hide.
	noQueue = 0.75
	// firstLook and nextLook are the times after which the unloaded latency is measured again, with a quarter of the limit.
	// For slow calls they are longer, so many of them, so that it costs some percent of the throughput at most.
	firstLook, firstCalls = 10 * time.Second, 25
	nextLook, nextCalls   = time.Minute, 100
)

// Concurrency finds the knee of one kind of request: the number in flight beyond which an endpoint only gets slower
// (CAPI-17). It compares the latency under load with the unloaded one; the difference is queueing. The unloaded latency is
// that of the first request at first, and is measured from time to time by sending less. Make it with NewConcurrency.
type Concurrency struct {
	limit float64
	most  int
	// floor is the unloaded latency; 0: not known yet. alone is the least number of requests in flight, and floor the latency
	// of the request sent with it, until the first window is full.
	floor time.Duration
	alone int
	// doubling until the first sign of a queue.
	doubling bool

	// window holds the latencies since the limit was set last; load is the sum of the requests in flight, over the window,
	// when each was sent.
	window []time.Duration
	load   int

	// looking: the unloaded latency is being measured, by requests that were sent after lookFrom.
	looking  bool
	lookFrom time.Time
	nextLook time.Time
}

// NewConcurrency returns a Concurrency whose limit never exceeds most.
func NewConcurrency(most int) *Concurrency {
	return &Concurrency{limit: min(firstLimit, float64(most)), most: most, doubling: true}
}

// Limit returns how many requests may be in flight just now; at least 1.
func (c *Concurrency) Limit() int {
	if c.looking {
		return max(1, int(c.limit/4))
	}
	return max(1, min(c.most, int(math.Round(c.limit))))
}

// Done records a request that was answered now, after latency, with inFlight requests in flight when it was sent, itself
// included.
func (c *Concurrency) Done(now time.Time, latency time.Duration, inFlight int) {
	if c.looking {
		c.look(now, latency)
		return
	}
	c.window = append(c.window, latency)
	c.load += inFlight
	if c.nextLook.IsZero() && (c.alone == 0 || inFlight < c.alone) {
		c.alone, c.floor = inFlight, max(latency, 1)
	}
	if len(c.window) < c.samples() {
		return
	}
	used := 2*c.load >= c.Limit()*len(c.window)
	median := c.endWindow()
	if median < c.floor {
		c.floor -= time.Duration(sink * float64(c.floor-median))
	}
	c.adapt(median, used)
	switch {
	case c.nextLook.IsZero():
		c.nextLook = now.Add(max(firstLook, firstCalls*c.floor))
	case !now.Before(c.nextLook):
		c.looking, c.lookFrom = true, now.Add(median)
	}
}

// samples returns how many answers fill the window.
func (c *Concurrency) samples() int {
	if c.doubling {
		return min(mostSamples, max(firstSamples, c.Limit()))
	}
	return min(mostSamples, max(leastSamples, c.Limit()))
}

// look measures the unloaded latency.
func (c *Concurrency) look(now time.Time, latency time.Duration) {
	if now.Add(-latency).Before(c.lookFrom) {
		return
	}
	c.window = append(c.window, latency)
	if len(c.window) < lookSamples {
		return
	}
	slices.Sort(c.window)
	c.floor = max(c.window[lookRank], 1)
	c.endWindow()
	c.looking = false
	c.nextLook = now.Add(max(nextLook, nextCalls*c.floor))
}

// endWindow empties the window and returns its median.
func (c *Concurrency) endWindow() time.Duration {
	slices.Sort(c.window)
	median := c.window[len(c.window)/2]
	c.window, c.load = c.window[:0], 0
	return max(median, 1)
}

// adapt sets the limit to what the endpoint works on at a time, and the slack. A limit that was not used is not raised.
func (c *Concurrency) adapt(median time.Duration, used bool) {
	worked := c.limit * min(float64(c.floor)/float64(median), 1)
	next := worked + max(1, slack*worked)
	switch {
	case next >= c.limit && !used:
		return
	case next >= c.limit && c.doubling && worked > noQueue*c.limit:
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

// Failed records a request that got no answer, or the answer that the endpoint is not available.
func (c *Concurrency) Failed() {
	c.limit = max(1, c.limit/2)
	c.doubling = false
	c.window, c.load = c.window[:0], 0
}
