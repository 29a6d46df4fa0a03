// Package resize decides what a call of the autoscaler changes in the object of a node group: one conditional write of its
// size, its removals and the series of its placeholders, or a refusal with the reason.
//
// It is pure: it returns the write as a value. Package nodegroup sends it.
package resize
