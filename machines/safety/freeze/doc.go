// Package freeze stops a group of Machines from growing when it has far more than its size allows: a MachineDeployment with all
// its sets, or a MachineSet without a deployment. Something is wrong then, such as a cache that lags behind or another program
// that makes Machines, and it must not go on. A frozen group still shrinks, deletes, repairs and rolls; only its sets make no
// Machine, and the autoscaler's orders are refused.
//
// What is decided stands in pure functions: Judge (whether a group is frozen) and converge (which marks its objects get). The
// Reconciler reads, writes and reports. The condition Frozen of the group's owner is the only memory of a freeze; labels, and the
// conditions of sets, follow it.
package freeze
