// Package addresses holds what is known of the ports and floating IPs of one project, by the Machines in their owner tags, and on
// which server floating IPs without an owner tag were seen.
//
// It is plain data: no lock, no clock, no call. It has nothing of servers but their IDs.
package addresses
