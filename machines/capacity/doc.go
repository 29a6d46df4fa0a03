// Package capacity writes into the status of each MachineDeployment the node that a new Machine of it would become. The autoscaler receives
// it as the template of a group without nodes.
package capacity
