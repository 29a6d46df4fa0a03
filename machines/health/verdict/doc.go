// Package verdict decides which unhealthy Machines are replaced, and says of each that is not what holds it back. It is pure: a
// snapshot of Machines, Nodes and groups goes in ([World]), a [Plan] with reasons comes out. It has no client, clock or logger.
package verdict
