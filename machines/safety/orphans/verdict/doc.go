// Package verdict decides which servers, ports, floating IPs and Nodes belong to no Machine any more, and which of them may be
// deleted now.
//
// It is pure: a snapshot of what one pass has read and the memory of the passes before it go in, a verdict with reasons and the
// next memory come out. It has no client, no clock and no logger.
package verdict
