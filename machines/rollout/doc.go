// Package rollout decides how a MachineDeployment gets from what is to what is wanted.
//
// Everything here is pure: a Snapshot goes in, a Plan with a reason for each step comes out; no client, no clock, no
// logger. The controllers machines/deployment and machines/set carry plans out, and nodegroup asks the same functions
// which Machines are unfulfilled and which would go first.
//
// One word is used in one meaning everywhere: a Machine is living when it is neither deleting nor named, by UID, in a
// list of removals (spec.removals or spec.rolloutRemovals). Only living Machines are counted, towards sizes and towards
// availability.
package rollout
