// Package nodegroup serves the node groups of a cluster. A node group is a MachineDeployment with bounds, as the
// cluster-autoscaler sees it. The package watches the objects and answers every read from one immutable value in memory. It
// resizes a group, or removes its nodes, with one conditional write.
//
// Packages model and model/membership decide what is answered and what is written. This package has the clients, the clock, the
// locks and the metrics. It has no gRPC and no cloud client.
//
// The rules (CA-C01 …) are what the core of cluster-autoscaler relies on; docs/cluster-autoscaler.md explains them.
package nodegroup
