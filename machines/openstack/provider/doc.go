// Package provider holds what can be said of OpenStack's objects without a call: which server a provider ID names, what a
// provider spec asks for, what drover remembers in status.providerStatus, and what may be left behind. It implements
// cloud.Provider. It is pure: it knows no client, clock, cluster or inventory.
package provider
