// Package nodegroup serves the node groups of a cluster. A node group is a MachineDeployment with bounds, as the
// cluster-autoscaler sees it. The package follows the objects, answers every read from one immutable value in memory, and
// resizes and removes with one conditional write each.
//
// Package model and the packages below it decide what is answered and what is written; this package has the clients, the clock,
// the locks and the metrics. It has no gRPC and no cloud client.
//
// The rules, with their numbers (CA-C01 …), are what the core of cluster-autoscaler relies on; docs/cluster-autoscaler.md
// explains them.
package nodegroup
