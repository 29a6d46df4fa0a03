// Package gitops brings MachineDeployments to a real API server with the libraries of the programs that people use for that, while
// the autoscaler changes their size. It is a module of its own, so that these libraries stay out of drover's go.mod.
package gitops
