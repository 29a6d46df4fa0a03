// Package freeze stops a group of Machines from growing when it has far more Machines than its size allows. A group is a
// MachineDeployment with all its sets, or a MachineSet without a deployment. Such an excess may be caused by a cache that
// lags behind, or by another program that creates Machines. A frozen group still deletes, repairs and replaces Machines, and
// can shrink; only its sets create no Machines, and scale-ups of the autoscaler are refused.
//
// The decisions are pure functions: Judge (whether a group is frozen) and converge (which conditions, labels and annotations
// its objects get). The Reconciler reads, writes and reports. The condition Frozen of the group's owner is the only memory of
// a freeze; the labels and the conditions of sets follow from it.
package freeze
