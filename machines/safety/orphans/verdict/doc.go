// Package verdict decides which servers, ports, floating IPs and Nodes belong to no Machine any more, and which of them may
// be deleted now: those of Machines whose end drover has observed, or whose end a person has confirmed.
//
// The package is pure: it computes a verdict with reasons from a snapshot of one round's reads and the known ends. It has no client,
// no clock and no logger.
package verdict
