// Package steps carries out the steps of the lifecycle table. The steps are grouped into types, each with only the clients
// that its steps need: [Creation], [Join], [NodeSync], [Power] and [Deletion]. A step reads the facts of its [scope.Scope],
// does its work, and returns true when the table is to be consulted again. No step blocks or chooses the next step, and only
// the scope writes the Machine.
//
// [Retries] applies the back-offs of package backoff: it reports whether a Machine may ask the cloud for a server, records how the request
// ended, and writes the back-offs of a group to its deployment or set.
package steps
