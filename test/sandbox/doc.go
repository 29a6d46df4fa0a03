// Package sandbox puts a whole cloud and cluster on one machine: a real control plane, a simulated OpenStack, simulated
// servers with their kubelets, a stand-in for OpenStack's cloud-controller-manager, drover as the real binary over
// mTLS, and cluster-autoscaler or its stand-in. The demo and the end-to-end tests use it.
//
// Everything listens on loopback only, and [Sandbox.Stop] removes everything.
package sandbox
