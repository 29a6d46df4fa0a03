// Package membership finds the Machine of a node and the Machines of a node group, and names instances that have no node. Its
// index is updated event by event.
//
// The package is pure: it has no client, and does not deal with sizes, errors or what the autoscaler is shown.
package membership
