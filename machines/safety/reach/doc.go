// Package reach reports whether the API servers answer: that of the cluster with the Machines (control) and that of the cluster
// with the Nodes (target), which may be one. While one of them does not, and for a while after it answers again, the caches may
// be out of date: drover creates nothing, and no controller decides or collects anything by the caches.
//
// A Watch probes both every few seconds. The state that follows from the answers is computed by pure functions (history). The package also tracks
// whether a replica holds the lease, because reading the lease is the probe of the control cluster.
package reach
