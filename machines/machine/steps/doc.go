// Package steps carries out the steps of the lifecycle table. Steps are grouped into types, each with only the clients that its
// steps need: [Creation], [Join], [NodeSync], [Power] and [Deletion]. A step reads the facts of its [scope.Scope], does its
// work, and returns true when the table is to be consulted again. No step blocks or chooses the next one, and only the scope
// writes the Machine.
package steps
