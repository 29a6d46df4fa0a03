// Package catalog turns the names in a provider spec into IDs: flavors, images, zones, networks, security groups, server groups, volume
// types and key pairs. The result is a [Plan].
//
// Answers are cached: what exists for 10 minutes, what does not exist for 30 seconds, and failures to ask not at all. What drover
// shares among the Machines of a cluster is made here when it is missing: the default security group and the shared server group.
//
// The package makes calls to OpenStack and reads nothing of Kubernetes. It knows no Machine: neither servers and ports nor who owns
// them.
package catalog
