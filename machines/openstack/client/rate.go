package client

import "time"

const (
	// enough and recent are the conditions under which the answers between two refusals are an estimate of the rate that the
	// endpoint accepts: at least enough answers per second, and at most the time recent between the refusals. Fewer answers
	// would show how much drover sent, not how much the endpoint accepts.
	enough = 2
	recent = 30 * time.Second
	// slowest is the lowest rate, in requests per second. Refusals lower a learned rate no further, because a slower one could not have been
	// learned: below it, only the pauses that the endpoint asks for slow drover down.
	slowest = enough
	// above is the factor by which drover sends faster than the estimated rate. The endpoint gains tokens during the pause after
	// a refusal, and the additional requests use these tokens. On average, drover then sends at the endpoint's own rate.
	above = 1.02
	// rise is the factor by which the rate grows with each request that had to wait for its turn. boldRise is used instead when
	// the time since the last refusal exceeds calm.
	rise     = 1.0005
	boldRise = 1.01
	calm     = time.Minute
)

// Rate pauses the requests to an endpoint for as long as the endpoint asks for (429, 503 with Retry-After: CAPI-16). It learns
// how many requests per second the endpoint accepts from the number of requests that were answered between two consecutive
// refusals. The zero value has no limit.
type Rate struct {
	perSecond float64
	// next is the time of the next request's turn; until is when the pause ends.
	next, until time.Time
	// since is the time of the last refusal, and passed is the number of answers since then.
	since  time.Time
	passed int
}

// PerSecond returns the rate limit; 0 when none is known.
func (r *Rate) PerSecond() float64 { return r.perSecond }

// Paused returns the remaining time of the pause; 0 when there is none.
func (r *Rate) Paused(now time.Time) time.Duration { return max(r.until.Sub(now), 0) }

// Reserve returns the time at which one more request may be sent: now, or later when other requests have reserved their turns
// before it.
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

// Return undoes Reserve, for a request that is not sent.
func (r *Rate) Return() {
	if r.perSecond == 0 {
		return
	}
	if r.next = r.next.Add(-r.interval(1)); r.next.Before(r.until) {
		r.next = r.until
	}
}

// Ahead returns the time from now until the turn of a request, if the given number of other requests is sent first.
func (r *Rate) Ahead(now time.Time, others int) time.Duration {
	if r.perSecond == 0 {
		return 0
	}
	return max(r.next.Sub(now), 0) + r.interval(others)
}

func (r *Rate) interval(requests int) time.Duration {
	return time.Duration(float64(requests) * float64(time.Second) / r.perSecond)
}

// Passed records an answer that is not a refusal; delayed is true when the request had to wait for its turn.
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

// Refused records a refusal that asks for a pause; rest is how long the pause lasts. Refusals during the pause are ignored,
// because those requests were sent before it began.
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
	case r.perSecond > 0 && r.passed > 0:
		// When nothing was answered since the last refusal, the endpoint is not working, and the refusal says nothing about its rate.
		r.perSecond = max(slowest, 0.9*r.perSecond)
	}
	r.since, r.passed = now, 0
}
