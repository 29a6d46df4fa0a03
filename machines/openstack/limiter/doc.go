// Package limiter decides how hard an endpoint may be pressed: [Concurrency] finds from latency how many requests it
// takes at a time, [Rate] finds from refusals how many it takes per second, and [Line] shares the places between groups.
// All three are pure: no clock, no goroutine, no lock; whoever uses them brings those.
package limiter
