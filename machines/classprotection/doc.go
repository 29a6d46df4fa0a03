// Package classprotection keeps MachineClasses, and the Secrets that they name, from being deleted while a MachineDeployment, a MachineSet
// or a Machine uses the class (MCM-5). Classes and Secrets have a finalizer until the last user is deleted. Old sets are users too,
// because a rollback needs their class.
//
// The package writes only that finalizer. In classes and Secrets it reads only the names of Secrets.
package classprotection
