// Package reach reports whether the API servers answer: the API server of the cluster with the Machines (control) and that of
// the cluster with the Nodes (target). Both may be the same cluster. While one of the API servers does not answer, and for a
// while after it answers again, the caches may be out of date. During that time drover creates nothing, and no controller
// decides or collects anything from the caches.
//
// It serves the replicas that answer the autoscaler without holding the lease, and the leader for the target cluster. A leader that
// renews its lease knows already that the control cluster answers.
package reach
