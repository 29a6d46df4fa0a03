// Package verdict decides which unhealthy Machines are replaced, and why the others are not. It is pure: it turns a snapshot of
// Machines, Nodes and groups ([World]) into a [Plan] with reasons. It has no client, clock or logger.
package verdict
