// Package process runs drover's real controllers in a world and injects faults. It records the controllers' calls to the cloud
// and the cluster, and at a fault point it kills the process, takes its lease away, or lets the call fail. It must not depend on
// scenarios or on invariants.
package process
