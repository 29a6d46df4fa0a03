// Package ownership is what owners have in common, be they sets of Machines or deployments of sets: which objects are
// theirs, when one of them changed, and how they are written to.
package ownership
