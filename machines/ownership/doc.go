// Package ownership is what the owners of objects have in common, be they MachineSets that own Machines or MachineDeployments
// that own MachineSets: which objects an owner controls ([RefManager]), which events wake it ([Events]), the removals that it
// must not lose ([Removals]) and how often its status is written ([Pace]). It decides no size and sees no cloud.
package ownership
