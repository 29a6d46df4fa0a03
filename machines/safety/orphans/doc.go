// Package orphans deletes resources that belong to no Machine any more: servers, ports and floating IPs with this cluster's
// owner tags, and Nodes whose Machine and server are both gone. It also annotates Nodes that were never drover's as unmanaged.
//
// Package verdict decides what is deleted, from the reads of one round: the tagged resources of all clouds, a live list of all
// Machines, and the cached Nodes. This package reads and writes Kubernetes, and calls clouds only through machines/cloud.
package orphans
