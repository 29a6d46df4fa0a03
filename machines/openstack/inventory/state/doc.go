// Package state is what is known of one OpenStack project, and what follows from it: answers of the cloud go in, and facts about Machines,
// calls to make and tags to write come out.
//
// The proof that a server, port or floating IP belongs to a Machine is the resource in the cloud: the metadata of a server, and the
// description of a port or floating IP. A server that no list shows is not proven gone. The package is pure: it has no lock, no clock, no
// client and no logger; times and the results of calls are arguments. A caller that shares a [Project] between goroutines must lock it.
package state
