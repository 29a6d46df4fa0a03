// Package day is one simulated day of a cluster for the whole program: a Kubernetes API server in memory, the simulated cloud, a small
// kubelet for each server, what runs and places pods, cluster-autoscaler's stand-in, and all that goes wrong in a day. It does not know
// how drover is put together: whoever starts a day says how a drover is started (see cmd/drover), and may be asked to do so again and again.
//
// A day must be played in a bubble of testing/synctest.
package day
