package limiter

import "time"

const (
	// enough answers per second between two refusals make an estimate, when the refusals are no further apart than recent:
	// fewer say more about what was asked than about what the endpoint takes.
	enough = 2
	recent = 30 * time.Second
	// above is how much more than the estimate is tried: the pause after a refusal leaves the endpoint with tokens, and
	// what is asked too much uses them up. The mean is the endpoint's own rate.
	above = 1.02
	// rise is the growth per request that had to wait for its turn; boldRise when nothing has been refused for calm.
	rise     = 1.0005
	boldRise = 1.01
	calm     = time.Minute
)

// Rate keeps an endpoint alone for as long as it asks (429, 503 with Retry-After: CAPI-16), and learns from two refusals
// in a row how many requests per second it takes: all that passed in between. The zero value knows no bound.
type Rate struct {
	perSecond float64
	// next is the turn of the next request; until is when the pause ends.
	next, until time.Time
	// since is the last refusal, passed what was answered after it.
	since  time.Time
	passed int
}

// PerSecond returns the pace; 0: no bound is known.
func (r *Rate) PerSecond() float64 { return r.perSecond }

// Paused returns how long the endpoint still wants to be left alone; 0: not at all.
func (r *Rate) Paused(now time.Time) time.Duration { return max(r.until.Sub(now), 0) }

// Reserve returns the time at which one more request may be sent, which is now or soon.
func (r *Rate) Reserve(now time.Time) time.Time {
	if r.perSecond == 0 {
		return now
	}
	if r.next.Before(now) {
		r.next = now
	}
	turn := r.next
	r.next = r.next.Add(r.interval(1))
	return turn
}

// Ahead returns how far from now the turn is of a request that is sent after so many others.
func (r *Rate) Ahead(now time.Time, others int) time.Duration {
	if r.perSecond == 0 {
		return 0
	}
	return max(r.next.Sub(now), 0) + r.interval(others)
}

func (r *Rate) interval(requests int) time.Duration {
	return time.Duration(float64(requests) * float64(time.Second) / r.perSecond)
}

// Passed records an answer that was no refusal; delayed: the request had to wait for its turn.
func (r *Rate) Passed(now time.Time, delayed bool) {
	r.passed++
	switch {
	case !delayed:
	case now.Sub(r.since) > calm:
		r.perSecond *= boldRise
	default:
		r.perSecond *= rise
	}
}

// Refused records a refusal that asks for so much rest. Further refusals during the rest teach nothing: those requests were
// sent before it began.
func (r *Rate) Refused(now time.Time, rest time.Duration) {
	if until := now.Add(rest); until.After(r.until) {
		defer func() { r.until, r.next = until, until }()
	}
	if now.Before(r.until) {
		return
	}
	took := now.Sub(r.since)
	switch {
	case !r.since.IsZero() && took <= recent && float64(r.passed) >= enough*took.Seconds():
		r.perSecond = above * float64(r.passed) / took.Seconds()
	case r.perSecond > 0:
		r.perSecond *= 0.9
	}
	r.since, r.passed = now, 0
}
