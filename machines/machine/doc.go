// Package machine takes each Machine from nothing to a Ready node, and cleanly back.
//
// A reconcile opens a scope, observes (package observe), takes the steps that the table of package lifecycle names (package
// steps) until one must wait, and ends with at most one write of the Machine; the writes before that are listed in package
// scope. Nothing waits inside a reconcile: the cloud's changes, the Node's changes and a clock bring the Machine back.
//
// This package itself only connects these: the loop, which step is carried out by what, and the watches.
package machine
