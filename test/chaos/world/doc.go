// Package world holds what a run happens in: a Kubernetes API server in memory, the simulated cloud, a small kubelet for every
// server that boots, the cluster's own controllers, and resources that belong to others. It checks the invariants that hold
// whatever happens to drover. It holds no knowledge of drover's process, of faults and of scenarios.
package world
