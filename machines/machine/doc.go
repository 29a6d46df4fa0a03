// Package machine takes each Machine from nothing to a Ready node, and cleanly back.
//
// The whole life is the table in next.go: what is observed in, the next step with its reason out. A pass observes once,
// takes steps until one must wait, and ends with at most one write of the Machine. Nothing waits inside a pass: the
// cloud's changes, the Node's changes and a clock bring the Machine back.
package machine
