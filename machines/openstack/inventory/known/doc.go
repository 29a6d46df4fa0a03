// Package known holds what is known of one OpenStack project, and makes the decisions for each Machine: which server is its own and in
// which state, whether a server that no list shows is proven gone, what may be created, deleted or released now, and what a list
// changes.
//
// A [Project] combines parts that each cover one subject: servers, addresses, creates in doubt and quota. It
// is pure: it has no lock, no clock and no client; times, rows and the results of calls are arguments. A caller that shares a Project
// between goroutines must lock it.
package known
