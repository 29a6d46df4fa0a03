package limiter

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// backend answers requests one after another on a number of workers: latency grows with the requests in flight beyond them.
type backend struct {
	workers int
	service time.Duration
	busy    []time.Time
	// noise is a random factor of the service time; nil: none.
	noise func() float64
}

// send returns the time of the answer.
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

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].done.Before(f[j].done) }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	old := *f
	last := old[len(old)-1]
	*f = old[:len(old)-1]
	return last
}

// press keeps limit() requests in flight for that long. It returns the number of answers, and the median latency of the second
// half.
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

func TestConcurrencyFindsTheBestLimit(t *testing.T) {
	const most, unloaded, lasts = 64, 50 * time.Millisecond, 2 * time.Minute
	for name, workers := range map[string]int{
		"one worker (CAPI-17)":                    1,
		"two workers (CAPI-17)":                   2,
		"sixteen workers (CAPI-17)":               16,
		"more workers than the maximum (CAPI-17)": most,
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

// finish returns how long a number of requests take from a cold start.
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

func TestConcurrencyStartsFast(t *testing.T) {
	const service = 1400 * time.Millisecond
	for _, workers := range []int{1, 2, 8} {
		for _, requests := range []int{20, 100} {
			t.Run(fmt.Sprintf("%d requests to an endpoint that works on %d at a time take at most 1.3 times what they must (F-56)", requests, workers), func(t *testing.T) {
				floor := time.Duration((requests+workers-1)/workers) * service
				if took := finish(&backend{workers: workers, service: service}, requests); 10*took > 13*floor {
					t.Errorf("took %s, at least %s", took, floor)
				}
			})
		}
	}
}

func TestConcurrencyFindsTheBestLimitWithNoise(t *testing.T) {
	const seeds, unloaded = 10, 50 * time.Millisecond
	for _, workers := range []int{1, 2, 8, 16} {
		t.Run(fmt.Sprintf("a knee at %d when latencies vary by 40 %% (F-56)", workers), func(t *testing.T) {
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

func TestConcurrencyFollowsAChangingEndpoint(t *testing.T) {
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

func TestConcurrencyDoesNotRiseWithoutDemand(t *testing.T) {
	c := NewConcurrency(64)
	for n := range 1000 {
		c.Done(noon.Add(time.Duration(n)*time.Second), 50*time.Millisecond, 1)
	}
	if got := c.Limit(); got > 4 {
		t.Errorf("one request at a time has raised the limit to %d", got)
	}
}

func TestConcurrencyHalvesWithoutAnAnswer(t *testing.T) {
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

// bucket is an endpoint that accepts a number of requests per second.
type bucket struct {
	perSecond, burst, tokens float64
	last                     time.Time
}

func (b *bucket) takes(now time.Time) bool {
	b.tokens = min(b.burst, b.tokens+now.Sub(b.last).Seconds()*b.perSecond)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func TestRateLearnsTheRateOfAnEndpoint(t *testing.T) {
	r := &Rate{}
	b := &bucket{perSecond: 20, burst: 20, tokens: 20, last: noon}
	now, passed, refused := noon, 0, 0
	for now.Before(noon.Add(time.Minute)) {
		if left := r.Paused(now); left > 0 {
			now = now.Add(left)
		}
		turn := r.Reserve(now)
		delayed := turn.After(now)
		now = turn
		if b.takes(now) {
			passed++
			r.Passed(now, delayed)
		} else {
			refused++
			r.Refused(now, time.Second)
		}
		now = now.Add(5 * time.Millisecond)
	}
	if passed < 20*60*95/100 || refused > passed/50 {
		t.Errorf("CAPI-16: %d passed of %d, %d refused", passed, 20*60, refused)
	}
}

func TestRatePausesForTheLongestRest(t *testing.T) {
	r := &Rate{}
	r.Refused(noon, time.Minute)
	r.Refused(noon.Add(time.Second), time.Second)
	if got := r.Paused(noon.Add(30 * time.Second)); got != 30*time.Second {
		t.Errorf("CAPI-16: %s left", got)
	}
	if got := r.Paused(noon.Add(time.Hour)); got != 0 {
		t.Errorf("%s left after the end", got)
	}
	if r.PerSecond() != 0 {
		t.Error("one refusal gives no estimate")
	}
}

func TestRateLearnsNoLimitFromARefusalInAQuietHour(t *testing.T) {
	r := &Rate{}
	now := noon
	for range 5 {
		r.Refused(now, time.Second)
		for range 5 {
			now = now.Add(4 * time.Second)
			r.Passed(now, false)
		}
	}
	if r.PerSecond() != 0 || r.Ahead(now, 0) != 0 {
		t.Errorf("one request in 4 s was taken for all that it takes: %v per second", r.PerSecond())
	}
}

func TestFairQueueServesGroupsInTurn(t *testing.T) {
	drain := func(q *FairQueue[int]) (got []int) {
		for n, ok := q.Pop(); ok; n, ok = q.Pop() {
			got = append(got, n)
		}
		return got
	}
	fill := func() *FairQueue[int] {
		q := &FairQueue[int]{}
		for n := range 4 {
			q.Push("many", n)
		}
		q.Push("few", 10)
		q.Push("few", 11)
		return q
	}
	t.Run("serves a group with few items without delay behind one with many (CAPI-24)", func(t *testing.T) {
		q := fill()
		if !q.Remove("many", 1) || q.Remove("many", 99) || q.Len() != 5 {
			t.Fatalf("got %+v", q)
		}
		if got, want := drain(q), []int{0, 10, 2, 11, 3}; !slices.Equal(got, want) {
			t.Errorf("CAPI-24: served in the order %v, want %v", got, want)
		}
		if q.Len() != 0 || len(q.lines) != 0 || len(q.turns) != 0 {
			t.Errorf("something is left: %+v", q)
		}
	})
	t.Run("PushFront puts a popped item back at the head, and its group is served next", func(t *testing.T) {
		q := fill()
		q.Pop()
		q.Pop()
		q.PushFront("few", 10)
		if got, want := drain(q), []int{10, 1, 11, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("served in the order %v, want %v", got, want)
		}
	})
	t.Run("PushFront puts an empty group at the head of the turns", func(t *testing.T) {
		q := &FairQueue[int]{}
		q.Push("many", 1)
		q.PushFront("few", 10)
		if got, want := drain(q), []int{10, 1}; !slices.Equal(got, want) {
			t.Errorf("served in the order %v, want %v", got, want)
		}
	})
}
