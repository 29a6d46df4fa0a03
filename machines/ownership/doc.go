// Package ownership holds what the controllers of MachineSets and MachineDeployments have in common as owners of objects: which objects an
// owner controls ([RefManager]), which events enqueue an owner ([Events]), the removals that must not be lost ([Removals]), the
// status of an owner ([Statuses]), what shows that an owner is frozen ([Freezes]), and writes of single fields
// ([Writer]). It decides no sizes and has no access to the cloud.
package ownership
