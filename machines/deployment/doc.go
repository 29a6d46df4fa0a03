// Package deployment carries out the plans of package rollout: it writes the sizes of a MachineDeployment's sets, with their
// shares of the removals, marks the Nodes that are rolled, and writes the deployment's status. It never sees a cloud.
//
// The Reconciler brings one deployment a step further. Each of the types that it uses has its own dependencies and lock: sets
// (whose sets and Machines are the deployment's), brake, settling, writes, rolledNodes, history and statuses.
package deployment

import "time"

// fieldManager owns what this controller writes.
const fieldManager = "drover-deployment"

// gather is how long events of sets and Machines are collected before their deployment is reconciled.
const gather = 200 * time.Millisecond
