// Package known holds what is known of one OpenStack project, and decides what follows from it for a Machine: which server is its own
// and in which state, whether an absence is a proof, what may be made, deleted or released now, and what a list changes.
//
// A [Project] puts the parts together that each know one thing only: servers, addresses, creates, quota and the mass-deletion guard.
// It is pure: it has no lock, no clock and no client; times, rows and the outcome of calls come in as arguments. Whoever shares one
// between goroutines locks it.
package known
