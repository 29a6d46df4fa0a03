// Package classprotection keeps MachineClasses from being deleted while a MachineDeployment, a MachineSet or a Machine uses them (MCM-5): a
// class has a finalizer until its last user is deleted. Old sets are users too, because a rollback needs their class.
//
// The package writes only that finalizer, and reads nothing of a class but its metadata.
package classprotection
