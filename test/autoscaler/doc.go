// Package autoscaler is a stand-in for cluster-autoscaler: a small client that speaks to drover only through the gRPC
// protocol, in the order in which cluster-autoscaler's main loop calls, with the same identity rules and the same
// caches. It is no autoscaler for real use.
//
// The way through: [Autoscaler.RunOnce] is one loop; it observes (cluster.go, provider.go), decides (plan.go, fit.go and
// memory.go, which have no client) and acts (act.go). What it leaves out of the original: pod affinity and topology
// spread, priorities, resource limits, balancing of similar groups, parallel drains.
package autoscaler
