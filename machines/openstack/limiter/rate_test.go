package limiter

import (
	"testing"
	"time"
)

// bucket is an endpoint that accepts a number of requests per second.
type bucket struct {
	perSecond, burst, tokens float64
	last                     time.Time
}

func TestTheRequestRateThatAnEndpointAcceptsIsLearned(t *testing.T) {
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

func TestRequestsPauseUntilTheEndOfTheLongestRetryAfter(t *testing.T) {
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
		t.Error("one refusal made an estimate")
	}
}

func TestNoRateLimitIsLearnedFromRefusalsAtALowRequestRate(t *testing.T) {
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
		t.Errorf("one request in 4 s became the limit: %v per second", r.PerSecond())
	}
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
