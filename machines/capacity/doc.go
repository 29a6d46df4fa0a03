// Package capacity writes into the status of each MachineDeployment which node a new Machine of the deployment would become. The autoscaler
// receives this node as the template of a group without nodes.
package capacity
