// Package set keeps MachineSets at their size: it adopts, creates and deletes Machines, and counts them.
//
// It has no access to a cloud or to Nodes. A Machine's Ready condition follows the condition of its Node, and a change of the Ready
// condition enqueues the set.
//
// The Reconciler compares one set with its Machines and acts. Each of the types that it uses has its own dependencies and lock: machines
// (the Machines of a set), expectations (what the cache does not show yet), specs and statuses. The function decide makes the decision
// without using any of these types.
package set

import "time"

// FieldManager is the field manager of this controller.
const FieldManager = "drover-machineset"

// gather is how long the queue collects events of Machines before their set is reconciled, so that several events cause only one write
// of the status.
const gather = 200 * time.Millisecond
