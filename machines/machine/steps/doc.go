// Package steps carries out the steps of the lifecycle table. Each group of steps is a type whose fields are all that its steps
// may touch: [Creation], [Join], [NodeSync] and [Deletion]. A step reads the facts of its [scope.Scope], does one thing, and
// returns true when the table is to be asked again. No step waits or chooses the next one, and only the scope writes the Machine.
package steps
