// Package addresses holds what is known of the ports and floating IPs of one project, by the Machines in their owner tags. For each
// floating IP without an owner tag it holds the last server.
//
// It is plain data: it has no lock, no clock, and makes no call. Of servers it has only the IDs.
package addresses
