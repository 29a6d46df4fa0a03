package fault

import "time"

// Policy is what follows from a class.
type Policy struct {
	// Retry is the first wait before the same step is tried again; it doubles up to MaxRetry.
	Retry, MaxRetry time.Duration
	// OpensBackoff: while it runs, further machines of the group make no cloud call.
	OpensBackoff bool
	// ShownAfter is how long a machine without a server must have failed before the autoscaler is told. Negative: never.
	ShownAfter time.Duration
	// OutOfResources: the autoscaler is told class 1, else 99.
	OutOfResources bool
}

// backoff bounds of a (group, class, flavor, zone).
const (
	firstBackoff = 30 * time.Second
	lastBackoff  = 5 * time.Minute
	soon         = 2 * time.Second
	atOnce       = 100 * time.Millisecond
	// patience is how long a failure that may pass by itself stays between us and the cloud (CA-C47).
	patience = 5 * time.Minute
)

var policies = map[Class]Policy{
	NotFound:   {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true},
	Quota:      {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, OutOfResources: true},
	NoCapacity: {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, OutOfResources: true},
	Invalid:    {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true},
	// The limiter says when to come back; waiting longer than that would leave the cloud idle.
	RateLimited: {Retry: atOnce, MaxRetry: atOnce, ShownAfter: -1},
	Conflict:    {Retry: soon, MaxRetry: time.Minute, ShownAfter: patience},
	Auth:        {Retry: soon, MaxRetry: lastBackoff, ShownAfter: patience},
	Transient:   {Retry: soon, MaxRetry: time.Minute, ShownAfter: patience},
	Unknown:     {Retry: soon, MaxRetry: lastBackoff, ShownAfter: patience},
}

// PolicyOf is the one table from class to retry, back-off and what the autoscaler sees (docs/design.md, principle 7).
func PolicyOf(class Class) Policy {
	if p, ok := policies[class]; ok {
		return p
	}
	return policies[Unknown]
}

// GroupWait returns how long the Machines of a group make no further attempt after so many failures in a row, the last of
// them with this class and code: 30 s, doubled with each further failure, at most 5 min.
//
// A class that does not open the back-off concerns one Machine alone. When a group's servers fail with it one after the
// other, the back-off opens at the second: the wait after the first is 0.
//
// What a spec names and the cloud does not have ([Unmatched]) is looked for again after 30 s each time, because somebody may
// add it at any moment and one list finds out.
func GroupWait(class Class, code Code, failures int32) time.Duration {
	failures = max(failures, 1)
	if !PolicyOf(class).OpensBackoff {
		failures--
	}
	switch {
	case failures == 0:
		return 0
	case Unmatched(code):
		return firstBackoff
	}
	wait := firstBackoff
	for n := int32(1); n < failures && wait < lastBackoff; n++ {
		wait *= 2
	}
	return min(wait, lastBackoff)
}
