// Package chaos runs drover's real controllers against a whole simulated world in one process and in virtual time, kills
// them at a chosen call, starts fresh ones, and judges what is left in the end.
//
// The world is test/kube/memory for Kubernetes, the in-process door of test/openstack for the cloud, and a tiny kubelet
// for every server that boots. Every call that anybody makes to either door waits for its turn, which is given to one
// call at a time once everything else is at rest: so a run follows from its seed, and what happened once happens again.
package chaos
