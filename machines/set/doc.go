// Package set keeps MachineSets at their size: it adopts, makes and deletes Machines, and counts them.
//
// It never sees a cloud, nor a Node: a Machine's Ready condition follows its Node's, and a change of it wakes the set.
//
// The Reconciler brings one set a step further. Each of the types that it uses has its own dependencies and lock: machines (the
// Machines of a set), expectations (what the cache does not show yet), specs and statuses. What is to be done is decided without
// any of them, by decide.
package set

import "time"

// FieldManager owns what this controller writes.
const FieldManager = "drover-machineset"

// gather is how long events of Machines are collected before their set is reconciled, so that all of them cause one status write.
const gather = 200 * time.Millisecond
