// Package verdict decides which servers, ports, floating IPs and Nodes belong to no Machine any more, and which of them may
// be deleted now.
//
// The package is pure: it computes a verdict with reasons, and the next memory, from a snapshot of one round's reads and the
// memory of earlier rounds. It has no client, no clock and no logger.
package verdict
