// Package ninetydays holds one test: 90 days of a cluster of 500 Machines in virtual time, which the verdicts of health and of orphans
// judge side by side. Both are pure functions, so nothing runs but the simulation: no client, no controller and no clock.
//
// The simulated world knows what is really so. What the verdicts are shown may be wrong: lists are empty, partial, old or in another
// order, caches stand still, and the API server is away. The test compares what the verdicts do with what is really so.
package ninetydays
