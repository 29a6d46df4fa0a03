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
	// Remedy is what a person can do, as the end of a message that begins with the failure.
	Remedy string
}

// again is the remedy of failures that may end without help.
const again = "drover tries again automatically; if this lasts, look at the service that this message names"

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
	NotFound:   {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, Remedy: "restore the resource, or correct its name in the spec"},
	Quota:      {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, OutOfResources: true, Remedy: "raise the quota, or free some of it; drover tries again automatically"},
	NoCapacity: {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, OutOfResources: true, Remedy: "drover tries again automatically; another zone or flavor may have room"},
	Invalid:    {Retry: firstBackoff, MaxRetry: lastBackoff, OpensBackoff: true, Remedy: "correct the spec, in the MachineDeployment if the Machine has one; drover tries again automatically"},
	// The endpoint limiter decides when to retry. An additional wait here would leave the cloud idle.
	RateLimited: {Retry: atOnce, MaxRetry: atOnce, ShownAfter: -1, Remedy: "no action is needed: drover goes on automatically"},
	Conflict:    {Retry: soon, MaxRetry: time.Minute, ShownAfter: patience, Remedy: again},
	Auth:        {Retry: soon, MaxRetry: lastBackoff, ShownAfter: patience, Remedy: "correct the credentials, their rights or what the message names; drover tries again automatically"},
	Transient:   {Retry: soon, MaxRetry: time.Minute, ShownAfter: patience, Remedy: again},
	Unknown:     {Retry: soon, MaxRetry: lastBackoff, ShownAfter: patience, Remedy: again},
}

// PolicyOf returns the policy of a class: retry, back-off, what the autoscaler sees, and what a person can do. No other table decides by
// the class (docs/design.md, principle 7).
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
	return min(firstBackoff<<min(failures-1, 10), lastBackoff)
}
