// Package limiter decides how many requests an endpoint is sent: [Concurrency] finds from latency how many it takes at a
// time, [Rate] finds from refusals how many it takes per second, and [FairQueue] shares the turns between groups. All three
// are pure: they have no clock, no goroutine and no lock of their own.
package limiter
