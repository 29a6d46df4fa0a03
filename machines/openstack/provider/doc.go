// Package provider implements cloud.Provider: it answers questions about OpenStack's resources that need no call, such as which server
// a provider ID names, which placement a provider spec asks for, what status.providerStatus holds, and which resources a removed
// Machine may leave behind. Only this package parses provider IDs: openstack:///UUID and openstack://REGION/UUID of the
// cloud-controller-manager and the bare UUID name the same server, in upper or lower case. The package is pure: it has
// no client, clock, cluster or inventory.
package provider
