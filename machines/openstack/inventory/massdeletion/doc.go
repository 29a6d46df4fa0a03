// Package massdeletion decides which losses of servers are believed. When too many of the cluster's servers in a project are gone at
// once, the guard holds them all: nothing is cleaned up until the servers are back, or an operator confirms the losses. A hold has no
// age and outlives the process.
//
// It is plain data: no lock, no clock, no call. Who stores what the guard holds, and who asks the operator, is not its business.
package massdeletion
