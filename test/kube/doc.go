// Package kube runs a real control plane for tests and demonstrations: etcd,
// kube-apiserver and, when asked for, kube-controller-manager, kube-scheduler
// and kwok, as processes of this machine on loopback ports that were free.
//
// It is a cluster as an installer would leave it for nodes that join by
// bootstrap token, with one difference that is the point of it: nobody approves
// a CertificateSigningRequest of a kubelet, neither the first one nor a
// renewal, since approving them is drover's work. The Node authorizer and the
// NodeRestriction admission plugin are on, and every request stands in an audit
// log, so that a test may count what its subject wrote.
//
// It is unfit for anything that is to be kept: etcd does not sync to disk, and
// keys are made on the spot and lie beside the data.
package kube
