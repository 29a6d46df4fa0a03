// Package orphans deletes resources that belong to no Machine any more: servers, ports and floating IPs with this cluster's
// owner tags, and Nodes whose Machine and server are both gone. It also annotates Nodes that were never drover's as unmanaged.
//
// It deletes only what belonged to a Machine whose end drover has observed, or whose end a person has confirmed. So lists that are
// empty, partial or old delete nothing. Package verdict decides, from the reads of one round: the tagged resources of all clouds, a
// live list of all Machines, the cached Nodes, and the ends. This package reads and writes Kubernetes, and calls clouds only through
// machines/cloud.
package orphans
