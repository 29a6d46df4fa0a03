// Package capacity keeps, in the status of each MachineDeployment, the node that a new Machine of it would become: what
// the autoscaler is told of a group that has no node yet.
package capacity
