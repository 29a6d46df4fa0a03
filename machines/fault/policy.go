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

// PolicyOf is the one table from class to retry, back-off and what the autoscaler sees (design §2.7).
func PolicyOf(class Class) Policy {
	if p, ok := policies[class]; ok {
		return p
	}
	return policies[Unknown]
}
