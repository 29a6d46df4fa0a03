// Package ninetydays holds one test: 90 days of a cluster of 500 Machines in virtual time. It runs the decisions of the
// health controller and of the orphan collector together. Both are pure functions, so only the simulation runs: no
// client, no controller and no clock.
//
// The simulated world knows its true state. The input of the decisions may be wrong: lists are empty, partial, old or
// in another order, caches are stale, and the API server is down. The test compares the decisions with the true state.
package ninetydays
