package client

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// backend answers requests on a number of workers, each of which processes one request at a time. The latency grows with the
// number of requests in flight beyond the number of workers.
type backend struct {
	workers int
	service time.Duration
	busy    []time.Time
	// noise returns a random factor for the service time. nil means that the service time is constant.
	noise func() float64
}

// send sends a request at the time now, and returns the time of its answer.
func (b *backend) send(now time.Time) time.Time {
	if len(b.busy) < b.workers {
		b.busy = append(b.busy, now)
	}
	free := 0
	for i := range b.busy {
		if b.busy[i].Before(b.busy[free]) {
			free = i
		}
	}
	start := b.busy[free]
	if start.Before(now) {
		start = now
	}
	took := b.service
	if b.noise != nil {
		took = time.Duration(float64(took) * b.noise())
	}
	b.busy[free] = start.Add(took)
	return b.busy[free]
}

type flight struct {
	sent, done time.Time
	inFlight   int
}

type flights []flight

func (f flights) Len() int { return len(f) }

func (f flights) Less(i, j int) bool { return f[i].done.Before(f[j].done) }

func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

func (f *flights) Push(x any) { *f = append(*f, x.(flight)) }

func (f *flights) Pop() any {
	old := *f
	last := old[len(old)-1]
	*f = old[:len(old)-1]
	return last
}

// press keeps limit() requests in flight for the given time, and calls done for each answer. It returns the number of answers, and the
// median latency in the second half of the time.
func press(b *backend, limit func() int, done func(now time.Time, f flight), lasts time.Duration) (answered int, median time.Duration) {
	var all flights
	var late []time.Duration
	now, end := noon, noon.Add(lasts)
	for now.Before(end) {
		for len(all) < limit() {
			heap.Push(&all, flight{sent: now, done: b.send(now), inFlight: len(all) + 1})
		}
		f := heap.Pop(&all).(flight)
		now = f.done
		answered++
		done(now, f)
		if now.Sub(noon) > lasts/2 {
			late = append(late, now.Sub(f.sent))
		}
	}
	slices.Sort(late)
	return answered, late[len(late)/2]
}

func TestConcurrencyLimitForAnEndpoint(t *testing.T) {
	const most, unloaded, lasts = 64, 50 * time.Millisecond, 2 * time.Minute
	for name, workers := range map[string]int{
		"reaches 90 % of the best throughput at an endpoint with one worker (CAPI-17)":                           1,
		"reaches 90 % of the best throughput at an endpoint with two workers (CAPI-17)":                          2,
		"reaches 90 % of the best throughput at an endpoint with sixteen workers (CAPI-17)":                      16,
		"reaches 90 % of the best throughput at an endpoint with as many workers as the maximum limit (CAPI-17)": most,
	} {
		t.Run(name, func(t *testing.T) {
			best, _ := press(&backend{workers: workers, service: unloaded}, func() int { return min(workers, most) }, func(time.Time, flight) {}, lasts)
			c := NewConcurrency(most)
			got, median := press(&backend{workers: workers, service: unloaded}, c.Limit, func(now time.Time, f flight) {
				c.Done(now, now.Sub(f.sent), f.inFlight)
			}, lasts)
			if 10*got < 9*best {
				t.Errorf("%d answers, the best fixed concurrency has %d", got, best)
			}
			if median > 3*unloaded {
				t.Errorf("median latency %s", median)
			}
		})
	}
}

// finish returns how long the backend needs for the given number of requests when the concurrency limit begins at firstLimit.
func finish(b *backend, requests int) time.Duration {
	c := NewConcurrency(64)
	var all flights
	now, sent := noon, 0
	for {
		for ; len(all) < c.Limit() && sent < requests; sent++ {
			heap.Push(&all, flight{sent: now, done: b.send(now), inFlight: len(all) + 1})
		}
		if len(all) == 0 {
			return now.Sub(noon)
		}
		f := heap.Pop(&all).(flight)
		now = f.done
		c.Done(now, now.Sub(f.sent), f.inFlight)
	}
}

func TestConcurrencyLimitRisesFastAtTheStart(t *testing.T) {
	const service = 1400 * time.Millisecond
	for _, workers := range []int{1, 2, 8} {
		for _, requests := range []int{20, 100} {
			t.Run(fmt.Sprintf("%d requests to an endpoint that serves %d at once take at most 1.3 times the shortest possible time (F-56)", requests, workers), func(t *testing.T) {
				floor := time.Duration((requests+workers-1)/workers) * service
				if took := finish(&backend{workers: workers, service: service}, requests); 10*took > 13*floor {
					t.Errorf("took %s, at least %s", took, floor)
				}
			})
		}
	}
}

func TestConcurrencyLimitWithVaryingLatencies(t *testing.T) {
	const seeds, unloaded = 10, 50 * time.Millisecond
	for _, workers := range []int{1, 2, 8, 16} {
		t.Run(fmt.Sprintf("reaches 90 %% of the best throughput at an endpoint that serves %d requests at once when latencies vary by 40 %% (F-56)", workers), func(t *testing.T) {
			best, answers := 0, 0
			for seed := range uint64(seeds) {
				random := rand.New(rand.NewPCG(seed, 0))
				noisy := func() *backend {
					return &backend{workers: workers, service: unloaded, noise: func() float64 { return 0.6 + 0.8*random.Float64() }}
				}
				most, _ := press(noisy(), func() int { return workers }, func(time.Time, flight) {}, 2*time.Minute)
				c := NewConcurrency(64)
				got, median := press(noisy(), c.Limit, func(now time.Time, f flight) { c.Done(now, now.Sub(f.sent), f.inFlight) }, 2*time.Minute)
				if median > 3*unloaded {
					t.Errorf("median latency %s with seed %d", median, seed)
				}
				best, answers = best+most, answers+got
			}
			if 10*answers < 9*best {
				t.Errorf("%d answers, the best fixed concurrency has %d", answers, best)
			}
		})
	}
}

func TestConcurrencyLimitFollowsTheNumberOfWorkersOfAnEndpoint(t *testing.T) {
	b := &backend{workers: 16, service: 50 * time.Millisecond}
	c := NewConcurrency(64)
	done := func(now time.Time, f flight) { c.Done(now, now.Sub(f.sent), f.inFlight) }
	press(b, c.Limit, done, time.Minute)
	b.workers, b.busy = 4, b.busy[:4]
	press(b, c.Limit, done, 3*time.Minute)
	if got := c.Limit(); got > 8 {
		t.Errorf("the knee went down to 4, the limit is %d", got)
	}
	b.workers = 16
	press(b, c.Limit, done, 5*time.Minute)
	if got := c.Limit(); got < 14 {
		t.Errorf("the knee went up to 16, the limit is %d", got)
	}
}

func TestConcurrencyLimitDoesNotRiseWithoutDemand(t *testing.T) {
	c := NewConcurrency(64)
	for n := range 1000 {
		c.Done(noon.Add(time.Duration(n)*time.Second), 50*time.Millisecond, 1)
	}
	if got := c.Limit(); got > 4 {
		t.Errorf("one request at a time has raised the limit to %d", got)
	}
}

func TestConcurrencyLimitHalvesWhenARequestGetsNoAnswer(t *testing.T) {
	c := &Concurrency{limit: 16, most: 64}
	c.Failed()
	if c.Limit() != 8 {
		t.Errorf("got %d", c.Limit())
	}
	for range 10 {
		c.Failed()
	}
	if c.Limit() != 1 {
		t.Errorf("got %d", c.Limit())
	}
}
