// Package day simulates one day of a cluster for the whole program: a Kubernetes API server in memory, the simulated cloud, a
// small kubelet for each server, models of the controllers and the scheduler that create and place pods, a simulated
// cluster-autoscaler, and the faults of a day. It does not depend on how drover is wired: the caller passes a function that
// starts a drover process (see cmd/drover), and the day may call it many times.
//
// A day must run in a bubble of testing/synctest.
package day
