// Package resize decides what a call of the autoscaler changes in the object of a node group: it returns one conditional
// write of the size, the removals and the series of placeholders, or a refusal with the reason.
//
// The package is pure: it returns the write as a value. Package nodegroup sends it.
package resize
