// Package machine reconciles each Machine: from its creation until its Node is Ready, and from its deletion until nothing of
// it is left.
//
// A reconcile opens a scope, observes (type observer), and takes the steps that the table of package lifecycle selects
// (package steps) until a step must wait. It ends with at most one write of the Machine; package scope lists the writes that
// must come earlier. Nothing blocks inside a reconcile: events of the cloud and of the Node, and timers, requeue the Machine.
//
// This package contains the observer, the loop, the table that maps each step to the function that takes it, and the watches.
package machine
