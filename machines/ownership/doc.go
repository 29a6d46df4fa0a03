// Package ownership holds what the controllers of MachineSets and MachineDeployments have in common as owners of objects: which objects an
// owner controls ([RefManager]), which events enqueue an owner ([Events]), the removals that must not be lost ([Removals]), and how often
// the status of an owner is written ([StatusThrottle]). It decides no sizes and has no access to the cloud.
package ownership
