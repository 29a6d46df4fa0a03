// Package model computes all answers about node groups: size, bounds, members, instances with their errors, options and the
// template node. It makes an immutable snapshot from Kubernetes objects. A view of the snapshot shows the listed groups. For the calls that
// resize a group, it returns one conditional write as a value, or a refusal with the reason; package nodegroup sends it.
//
// The package is pure: it has no client, clock, logger or metrics, no gRPC, and writes nothing. The time is a parameter.
package model
