// Package orphans deletes what belongs to no Machine any more: servers, ports and floating IPs that have this cluster's marks, and
// Nodes whose Machine and server are both gone. It also marks Nodes that never were drover's.
//
// What is deleted is decided by package verdict, from what one pass reads: the marked resources of all clouds, a live list of all
// Machines, the cached Nodes. The package reads and writes Kubernetes, and asks clouds through machines/cloud alone.
package orphans
