// Package rollout decides the next step of a MachineDeployment from its current state to its spec.
//
// Everything here is pure: [Compute] takes a Snapshot and returns a Plan with a reason for each step, without a client, clock or logger.
// The controllers machines/deployment and machines/set carry out the plans. Package nodegroup uses the same functions to find the Machines
// that are not nodes yet, and the order of deletion.
//
// A Machine is living when it is neither being deleted nor named, by UID, in a list of removals (spec.removals or spec.rolloutRemovals).
// Only living Machines count towards sizes and availability.
package rollout
