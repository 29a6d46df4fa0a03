// Package deployment carries out the plans of package rollout: it writes the sizes of a MachineDeployment's sets together with their shares
// of the removals, taints and annotates the Nodes that are rolled, and writes the deployment's status. It has no access to a cloud.
//
// The Reconciler makes a plan for one deployment and carries it out. Each of the types that it uses has its own dependencies and lock: sets
// (which sets and Machines belong to a deployment), replacementLimit, debounce, writes, rolledNodes, history and statuses.
package deployment

import "time"

// fieldManager is the field manager of this controller.
const fieldManager = "drover-deployment"

// gather is how long the queue collects events of sets and Machines before their deployment is reconciled.
const gather = 200 * time.Millisecond
