// Package massdeletion decides which losses of servers to accept. When too many of the cluster's servers in a project disappear at the
// same time, the guard holds all these losses: drover cleans nothing up until the servers are back, or an operator confirms the losses.
// A hold does not expire, and outlives the process.
//
// It is plain data: it has no lock, no clock, and makes no call. Its callers store its state and ask the operator.
package massdeletion
