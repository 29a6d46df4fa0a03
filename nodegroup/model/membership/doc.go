// Package membership finds the Machine that a node belongs to and the Machines of a node group, and names instances that have
// no node. Its index is updated event by event.
//
// It is pure: it has no client, and does not deal with sizes, errors or the autoscaler's view.
package membership
