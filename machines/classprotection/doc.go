// Package classprotection keeps MachineClasses, and the Secrets that they name, from being deleted while a MachineDeployment, a
// MachineSet or a Machine uses the class (MCM-5): a finalizer stays on them until the last user is deleted. Old sets are users
// too, since a rollback needs their class.
//
// It writes nothing but that finalizer. It does not read what a class or Secret says, except for the names of Secrets.
package classprotection
