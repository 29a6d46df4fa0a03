package client

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

// learned returns a rate that was learned from 100 answers between two refusals, ten seconds apart.
func learned() (*Rate, time.Time) {
	r, now := &Rate{}, noon
	r.Refused(now, time.Second)
	for range 100 {
		r.Passed(now, false)
	}
	now = now.Add(10 * time.Second)
	r.Refused(now, time.Second)
	return r, now
}

func TestALearnedRateHasAFloor(t *testing.T) {
	for answers, what := range map[int]string{0: "without an answer", 1: "with one answer between two refusals"} {
		t.Run("an hour of refusals "+what+" does not stop the requests after it (F-60)", func(t *testing.T) {
			r, now := learned()
			if r.PerSecond() < 10 {
				t.Fatalf("%v per second are learned", r.PerSecond())
			}
			for range 120 {
				now = now.Add(31 * time.Second)
				for range answers {
					r.Passed(now, false)
				}
				r.Refused(now, 30*time.Second)
			}
			now = now.Add(30 * time.Second)
			r.Reserve(now)
			if wait := r.Reserve(now).Sub(now); wait > time.Second || r.PerSecond() < slowest {
				t.Errorf("%v per second, the second request waits for %v", r.PerSecond(), wait)
			}
		})
	}
}

func TestATurnThatIsGivenBackDelaysNobody(t *testing.T) {
	t.Run("after a thousand requests that were not sent, the next one is sent at once (F-60)", func(t *testing.T) {
		r, now := learned()
		now = now.Add(time.Minute)
		for range 1000 {
			r.Reserve(now)
			r.Return()
		}
		if turn := r.Reserve(now); turn.After(now) {
			t.Errorf("it waits for %v", turn.Sub(now))
		}
	})
	t.Run("a turn that is given back during a pause does not shorten the pause (F-60)", func(t *testing.T) {
		r, now := learned()
		r.Refused(now.Add(2*time.Second), time.Minute)
		r.Return()
		if turn := r.Reserve(now.Add(3 * time.Second)); turn.Before(now.Add(62 * time.Second)) {
			t.Errorf("the turn is %v after the refusal", turn.Sub(now.Add(2*time.Second)))
		}
	})
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
