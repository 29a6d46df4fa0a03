// Package sandbox puts a whole cloud and cluster on one machine: a real control plane, a simulated OpenStack, simulated
// servers with their kubelets, a simulated cloud-controller-manager of OpenStack, drover as the real binary over mTLS,
// and the real or a simulated cluster-autoscaler. The demo and the end-to-end tests use it.
//
// Everything listens on loopback only, and [Sandbox.Stop] removes everything.
package sandbox
