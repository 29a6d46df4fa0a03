// Package autoscaler simulates cluster-autoscaler. It is a client that speaks to drover only through the gRPC protocol, with
// the order of calls of cluster-autoscaler's main loop (release 1.36), and with the same identity rules, caches, timers and
// known bugs. It is not meant for real use.
//
// [Autoscaler.RunOnce] is one loop. It observes (observe.go, cluster.go, provider.go, instances.go), decides (plan.go,
// expand.go, fit.go and memory.go, which have no client) and acts (act.go, remove.go).
//
// It also has those bugs of cluster-autoscaler that a provider must cope with:
//
//   - It forgets a scale-up when it cannot read the group's options afterwards.
//   - It forgets everything about the groups that one failed call did not list.
//   - It takes back the whole of a late scale-up, also the part that succeeded.
//   - Its lists of instances may be two minutes old, and are empty after a failed call.
//   - It ignores scale-ups of another process.
//   - It deletes nodes with one call each, up to ten at a time.
//   - A node whose group is unknown inherits the options of the node before it.
//   - A Ready node with a NoSchedule taint that is not a startup taint counts as ready and not as upcoming, although no pod
//     fits on it.
//   - The startup time of a group with options of its own is zero, so a node that is starting counts as unready.
//
// Options let it choose groups by price (price.go) and grow similar groups evenly (expand.go, alike.go). It supports groups
// that scale only between zero and their maximum.
//
// It leaves out pod affinity and topology spread, priorities, resource limits, soft taints, and releases before 1.36. docs/testing.md lists
// its rules, with the file of cluster-autoscaler from which each was read, and what it leaves out of each.
//
// The tests run it against drover in virtual time. Their helpers read as follows, where w is the world and p a pool:
//
//	pool                 a MachineDeployment and the pods that run only on its nodes; p.pods is the demand
//	withThreeBusyNodes   starts drover and the client with one pool of three busy nodes and a maximum of ten
//	lost: lostFrom(4)    the servers of the 4th Machine and all later ones never become nodes
//	w.run(d)             lets d pass
//	w.until(d, …, f)     lets time pass until f holds, for d at most
//	w.counts(p)          counts the Machines, nodes and running pods of p
//	w.settled(p, n)      reports whether p has size n, as many Machines and nodes, and all of its pods run
//	w.endsAt(p, n)       fails unless p reaches size n, which meets the demand, and keeps it
//	w.neverAbove(n)      fails when the sum of all sizes was ever above n
//	w.resize(p, n)       sets the size of p, as kubectl scale does
//	w.wire.faulty(f)     lets calls of the client fail from now on; endFaults ends that
//	w.checker            checks that drover deletes only nodes that the client named, and counts them
package autoscaler
