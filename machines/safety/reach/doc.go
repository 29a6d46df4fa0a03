// Package reach reports whether the API servers answer: the API server of the cluster with the Machines (control) and that of
// the cluster with the Nodes (target). Both may be the same cluster. While one of the API servers does not answer, and for a
// while after it answers again, the caches may be out of date. During that time drover creates nothing, and no controller
// decides or collects anything from the caches.
//
// A Watch probes both API servers every few seconds. Pure functions compute the state from the answers (history). The package
// also tracks whether a replica holds the lease, because reading the lease is the probe of the control cluster.
package reach
