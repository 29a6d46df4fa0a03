// Package autoscaler is a stand-in for cluster-autoscaler: a client that speaks to drover only through the gRPC protocol,
// in the order in which cluster-autoscaler's main loop calls (release 1.36), with the same identity rules, caches, timers
// and known bugs. It is no autoscaler for real use.
//
// The way through: [Autoscaler.RunOnce] is one loop; it observes (observe.go, cluster.go, provider.go, instances.go),
// decides (plan.go, expand.go, fit.go and memory.go, which have no client) and acts (act.go, remove.go).
//
// The bugs that it has too, since a provider has to live with them: a scale-up whose options cannot be read afterwards is
// forgotten, and so is everything about groups that one failed call did not list; a scale-up that is late is taken back
// whole; lists of instances may be two minutes old, or empty after a failed call; what another process ordered counts for
// nothing; nodes are deleted one call each, ten at once; a node whose group is unknown inherits the options of the one
// before it; a Ready node with a NoSchedule taint that is no startup taint counts as ready and not as upcoming, although no
// pod fits on it; with options of its own a group's startup time is zero, so that a node that is starting counts as broken.
//
// On demand it chooses by price (price.go), lets groups that are alike grow evenly (expand.go, alike.go), and knows groups
// that are either empty or full.
//
// What it leaves out of the original: pod affinity and topology spread, priorities, resource limits, soft taints, the minute
// that a node must have been ready before it serves as its group's template, releases before 1.36.
package autoscaler
