// Package owner decides which Machine a server, port or floating IP in the cloud belongs to.
//
// What the cloud says of a resource is the evidence: the metadata of a server, and the description of a port or floating IP. What a
// Machine says of itself (spec.providerID) only says where to look. The package is pure: it keeps nothing and makes no call.
package owner
