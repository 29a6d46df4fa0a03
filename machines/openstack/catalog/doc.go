// Package catalog resolves the names in a provider spec into IDs: flavors, images, zones, networks, security groups, server groups,
// volume types and key pairs. The result is a [Plan].
//
// The catalog caches answers: existing resources for 10 minutes, missing resources for 30 seconds, and failed requests not at all.
// Two resources are shared by all Machines of a cluster: the default security group and the shared server group. The catalog
// creates them when they are missing.
//
// The package makes calls to OpenStack and reads nothing from Kubernetes. It does not deal with single Machines: neither with their
// servers and ports, nor with the ownership of a server or port.
package catalog
