// Package world holds everything around drover in a run: a Kubernetes API server in memory, the simulated cloud, a small kubelet
// for each server that boots, the controllers of kube-controller-manager that matter, and unrelated resources. It checks the
// invariants, which must hold whatever happens to drover. It must not depend on drover's process, on faults or on scenarios.
package world
