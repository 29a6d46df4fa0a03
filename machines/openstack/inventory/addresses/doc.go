// Package addresses holds what is known of the ports and floating IPs of one project, by the Machines in their owner tags, and the last
// server of each floating IP without an owner tag.
//
// It is plain data: it has no lock, no clock, and makes no call. Of servers it has only the IDs.
package addresses
