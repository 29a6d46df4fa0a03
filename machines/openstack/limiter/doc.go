// Package limiter decides how many requests to send to an endpoint: [Concurrency] learns from latencies how many it can process at a
// time, [Rate] learns from refusals how many it accepts per second, and [FairQueue] serves groups in turn. All three are pure: they
// have no clock, no goroutine and no lock of their own.
package limiter
