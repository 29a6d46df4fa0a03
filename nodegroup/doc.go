// Package nodegroup serves the node groups of a cluster: a node group is a MachineDeployment with bounds, as the
// cluster-autoscaler sees it. It follows the objects, answers every read from one immutable value in memory, and resizes and
// removes with one conditional write each.
//
// What is answered and what is written is decided in package model and the packages below it; this package has the clients,
// the clock, the locks and the metrics. It knows no gRPC and no cloud.
//
// The rules, and their numbers (CA-C01 …), are what the core of cluster-autoscaler relies on; docs/cluster-autoscaler.md
// explains them.
package nodegroup
