// Package provider implements cloud.Provider: it answers questions about OpenStack's resources that need no call, such as which server
// a provider ID names, which placement a provider spec asks for, what status.providerStatus holds, and which resources a removed
// Machine may leave behind. The package is pure: it has no client, clock, cluster or inventory.
package provider
