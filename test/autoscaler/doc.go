// Package autoscaler simulates cluster-autoscaler. It is a client that speaks to drover only through the gRPC protocol, with
// the order of calls of cluster-autoscaler's main loop (release 1.36), and with the same identity rules, caches, timers and
// known bugs. It is not meant for real use.
//
// [Autoscaler.RunOnce] is one loop. It observes (observe.go, cluster.go, provider.go, instances.go), decides (plan.go,
// expand.go, fit.go and memory.go, which have no client) and acts (act.go, remove.go).
//
// It also has those bugs of cluster-autoscaler that a provider must cope with. The scenarios show each of them:
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
//   - It crashes on an empty template, and on a node whose group is not among the listed groups.
//   - It takes a 404 of a wrong address for "not implemented".
//   - It removes a healthy node whose provider ID is not the instance's ID, as one that never registered.
//   - It deletes instances of an old list that it has already taken back, so the size falls twice.
//   - Nodes that another client deletes reduce a scale-up, so it orders twice. It also does when a restart makes it forget
//     upcoming nodes.
//   - A correction of a size that fails, or changes nothing, stops scaling for all groups.
//   - When the response to a removal is lost, it takes its taint off a node that is being deleted.
//   - A node with the GPU label, without a group and without a GPU stops all groups.
//   - Without prices the price expander increases no group.
//   - A machine that never becomes a node stays when the group is at its minimum.
//
// Options let it choose groups by price (price.go) and grow similar groups evenly (expand.go, alike.go). It supports groups
// that scale only between zero and their maximum.
//
// Its rules are those of release 1.36.1, from these files below cluster-autoscaler/:
//
//   - The example of a group is a node that is Ready, schedulable and not being removed, and all of that for a minute; else the last such
//     node; else the provider's template; else any node (processors/nodeinfosprovider/mixed_nodeinfos_processor.go). Left out: the
//     life of the remembered example (--node-info-cache-expire-time), pods of DaemonSets on it.
//   - An example loses taints of one node's state, startup and status taints; a cordon stays (simulator/node_info_utils.go,
//     utils/taints/taints.go). Left out: new names and UIDs, --scale-from-unschedulable.
//   - A node is ready by its conditions Ready, DiskPressure and NetworkUnavailable, and three taints (utils/kubernetes/ready.go). Left
//     out: suspended nodes.
//   - Startup taints count by flag or by prefix, whatever their effect, on Ready and schedulable nodes only (utils/taints/taints.go,
//     core/static_autoscaler.go). Left out: --startup-taint-prefix.
//   - A node with the GPU label and without a GPU that it knows is unready (processors/customresources/gpu_processor.go,
//     utils/gpu/gpu.go). Left out: GPUs by dynamic resource allocation.
//   - Such a node without a group, or in a group without a template, ends all scaling; else the template of its group is asked, once for
//     each group (processors/customresources/gpu_processor.go, resourcequotas/cache.go, resourcequotas/usage.go). Left out: limits
//     themselves (--gpu-total, --cores-total, …). It counts in each loop, and not only while a pod waits or a removal is due.
//   - Groups are similar by resources, and by labels but those of the place and the ignored ones
//     (processors/nodegroupset/compare_nodegroups.go). Left out: what pods of DaemonSets leave free.
//   - Similar groups grow evenly, the smallest first (processors/nodegroupset/balancing_processor.go,
//     core/scaleup/orchestrator/orchestrator.go). Left out: --balancing-label.
//   - Ready, unready, starting and upcoming nodes, the limits of unready nodes, gaps between size and nodes, back-off
//     (clusterstate/clusterstate.go, utils/backoff/exponential_backoff.go).
//   - The order of a loop, and errors that end it (core/static_autoscaler.go).
//   - Pods fit first in the order of creation (estimator/binpacking_estimator.go). Left out: inter-pod affinity, topology spread,
//     priorities, volumes, DaemonSets.
//   - Which nodes can go, and how (core/scaledown/eligibility/eligibility.go, core/scaledown/planner/planner.go,
//     core/scaledown/actuation/actuator.go). Left out: soft taints, budgets in the plan, pods with local storage.
//   - Prices (expander/price/price.go).
//   - Calls and their caches (cloudprovider/externalgrpc/externalgrpc_cloud_provider.go, externalgrpc_node_group.go).
//
// Releases before 1.36 are left out.
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
