// Package owner decides which Machine a server, port or floating IP in the cloud belongs to.
//
// The proof is the resource in the cloud: the metadata of a server, and the description of a port or floating IP. The Machine's
// spec.providerID only shows where to look. The package is pure: it has no state and makes no call.
package owner
