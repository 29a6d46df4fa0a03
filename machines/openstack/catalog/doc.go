// Package catalog resolves the names in a provider spec into IDs: flavors, images, zones, networks, security groups, server groups,
// volume types and key pairs. The result is a [Plan].
//
// The catalog caches answers: existing resources for 10 minutes, missing ones for 30 seconds, and failed requests not at all. It
// creates the resources that all Machines of a cluster share when they are missing: the default security group and the shared server
// group.
//
// The package makes calls to OpenStack and reads nothing from Kubernetes. It has nothing to do with single Machines: with their servers
// and ports, and with who owns these.
package catalog
