package client

import (
	"math"
	"slices"
	"time"
)

const (
	// firstLimit is the concurrency limit before any latency was measured. With this limit, an endpoint that processes one request
	// at a time gets only a short queue. For a faster endpoint, the best limit is found one step sooner than from a limit of 1.
	firstLimit = 4
	// firstSamples and leastSamples are the minimum number of answers after which the limit is set again: firstSamples before the
	// first sign of a queue, and leastSamples after it. The number is larger when more requests are in flight.
	firstSamples, leastSamples = 3, 10
	// mostSamples is the maximum number of answers after which the limit is set again.
	mostSamples = 64
	// slack is how many requests may queue at the endpoint, as a fraction of the number that it processes concurrently. At least
	// one request may queue, so that the endpoint is never idle. With a smaller fraction, variations of the latency would look
	// like a queue.
	slack = 0.3
	// lookSamples is the number of answers with which the unloaded latency is measured. The result is the fourth-lowest of these
	// five latencies: that at index lookRank, from 0. If the value is too high, a few more requests queue; if it is too low, the
	// endpoint is not fully used.
	lookSamples, lookRank = 5, 3
	// sink is how far the unloaded latency is lowered when the median latency of a window is below it, as a fraction of the
	// difference. It is small, because a few answers may be faster by chance.
	sink = 0.125
	// noQueue is a fraction of the limit. If the endpoint processes more than this concurrently, it has no queue, and the limit may
	// be doubled. It is less than 1, because measured latencies vary.
	noQueue = 0.75
	// firstLook is the interval before the unloaded latency is measured again for the first time, at a quarter of the limit.
	// nextLook is the interval between later measurements. For slow calls the intervals are at least firstCalls and nextCalls calls
	// long, so that measuring costs only a few percent of the throughput.
	firstLook, firstCalls = 10 * time.Second, 25
	nextLook, nextCalls   = time.Minute, 100
)

// Concurrency finds the best concurrency for one kind of request: the number in flight beyond which an endpoint only gets slower
// (CAPI-17). It compares the latency under load with the unloaded latency; the difference is queueing. At first, the unloaded
// latency is the latency of the first request. Later it is measured at intervals by sending fewer requests. Use NewConcurrency to
// create one.
type Concurrency struct {
	limit float64
	most  int
	// floor is the unloaded latency; 0 while it is not known. Until the limit is set for the first time, floor is the latency of
	// the answered request that was sent with the fewest requests in flight; alone is how many were in flight then, including that
	// request.
	floor time.Duration
	alone int
	// doubling is true until the first sign of a queue. While it is true, the limit may be doubled.
	doubling bool

	// window holds the latencies since the limit was last set. load is the sum, over these latencies, of the number of requests
	// that were in flight when each request was sent.
	window []time.Duration
	load   int

	// looking is true while the unloaded latency is being measured. Only requests that were sent after lookFrom count, because
	// earlier ones were slowed down by the load.
	looking  bool
	lookFrom time.Time
	nextLook time.Time
}

// NewConcurrency returns a Concurrency whose limit never exceeds the given number.
func NewConcurrency(most int) *Concurrency {
	return &Concurrency{limit: min(firstLimit, float64(most)), most: most, doubling: true}
}

// Limit returns how many requests may currently be in flight; at least 1.
func (c *Concurrency) Limit() int {
	if c.looking {
		return max(1, int(c.limit/4))
	}
	return max(1, min(c.most, int(math.Round(c.limit))))
}

// Done records a request that was answered now, after latency. inFlight is the number of requests in flight when it was sent,
// including itself.
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

// look records a latency while the unloaded latency is measured. After lookSamples answers it sets the unloaded latency.
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

// endWindow empties the window and returns the median of its latencies.
func (c *Concurrency) endWindow() time.Duration {
	slices.Sort(c.window)
	median := c.window[len(c.window)/2]
	c.window, c.load = c.window[:0], 0
	return max(median, 1)
}

// adapt sets the limit to the number of requests that the endpoint processes concurrently, as measured, plus slack. It raises the
// limit only if used is true: on average, at least half as many requests were in flight as the limit allows.
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

// Failed records a request that got no answer, or the answer that the endpoint is unavailable.
func (c *Concurrency) Failed() {
	c.limit = max(1, c.limit/2)
	c.doubling = false
	c.window, c.load = c.window[:0], 0
}
