// Package gitops applies MachineDeployments to a real API server with the libraries of GitOps programs, while the
// autoscaler changes their size. It is a separate module, so that these libraries stay out of drover's go.mod.
package gitops
