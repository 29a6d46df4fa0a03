// Package reach knows whether the API servers answer: that of the cluster with the Machines (control) and that of the cluster
// with the Nodes (target), which may be one. While one of them does not, and for a while after it answers again, what the caches
// show may be old: nothing is made, judged or collected by it.
//
// A Watch asks both every few seconds. What follows from their answers is decided without client and clock, by history. Whether
// a replica holds the lease stands here too, because reading the lease is how the control cluster is asked.
package reach
