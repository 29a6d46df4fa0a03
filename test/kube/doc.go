// Package kube runs a real control plane for tests and demonstrations: etcd, kube-apiserver and
// optionally kube-controller-manager, kube-scheduler and kwok. They are processes of this machine
// on free loopback ports.
//
// The cluster is as an installer would leave it for nodes that join by bootstrap token, with one
// intended difference. Nobody approves a kubelet's CertificateSigningRequest, neither the first one
// nor a renewal, because approving them is drover's work. The Node authorizer and the
// NodeRestriction admission plugin are on. Every request is in an audit log, so that a test can
// count what its subject wrote.
//
// It is unfit for data that must be kept: etcd does not sync to disk, and the keys are created at
// the start and stored next to the data.
package kube
