package fault

import "time"

// Policy holds what drover does about a failure of one class.
type Policy struct {
	// Retry is the first wait before the same step is tried again. It doubles with each failure, up to MaxRetry.
	Retry, MaxRetry time.Duration
	// OpensBackoff reports whether the failure opens the back-off of the group. While the back-off runs, other Machines of the group
	// create no server.
	OpensBackoff bool
	// ShownAfter is how long the failure of a Machine without a server must last before the autoscaler sees the error. Negative means
	// never.
	ShownAfter time.Duration
	// OutOfResources reports whether the autoscaler sees the error as out of resources (its class 1) or as any other error (its class 99).
	OutOfResources bool
}

// The bounds of a back-off. Each group has a separate back-off for each class, flavor and zone.
const (
	firstBackoff = 30 * time.Second
	lastBackoff  = 5 * time.Minute
	soon         = 2 * time.Second
	atOnce       = 100 * time.Millisecond
	// patience is how long drover hides from the autoscaler a failure that may end without help (CA-C47).
	patience = 5 * time.Minute
)

var policies = map[Class]Policy{
	NotFound:   {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true},
	Quota:      {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, OutOfResources: true},
	NoCapacity: {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, OutOfResources: true},
	Invalid:    {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true},
	// The endpoint limiter decides when to retry. An additional wait here would leave the cloud idle.
	RateLimited: {Retry: atOnce, MaxRetry: atOnce, ShownAfter: -1},
	Conflict:    {Retry: soon, MaxRetry: time.Minute, ShownAfter: patience},
	Auth:        {Retry: soon, MaxRetry: lastBackoff, ShownAfter: patience},
	Transient:   {Retry: soon, MaxRetry: time.Minute, ShownAfter: patience},
	Unknown:     {Retry: soon, MaxRetry: lastBackoff, ShownAfter: patience},
}

// PolicyOf returns the policy of a class: retry, back-off, and what the autoscaler sees. No other table decides by the class
// (docs/design.md, principle 7).
func PolicyOf(class Class) Policy {
	if p, ok := policies[class]; ok {
		return p
	}
	return policies[Unknown]
}

// GroupWait returns how long the Machines of a group request no further server after a number of consecutive failures. class and
// code are those of the last failure. The wait is 30 s, doubled with each further failure, at most 5 min.
//
// A failure of a class that does not open the back-off concerns one Machine. When several servers of a group fail in that way one after
// the other, the back-off opens at the second failure: the wait after the first failure is 0.
//
// For a name in a spec that the cloud does not have ([Unmatched]), the wait is always 30 s: an operator may create the resource at any
// moment, and the retry costs one list request.
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
