// Package chaos plays scenarios with drover's real controllers in one process and in virtual time, makes trouble at a chosen
// call, and checks what is left in the end.
//
//	chaos     scenarios, and the run that plays one
//	process   drover's controllers, whose calls are counted, killed and failed
//	world     cluster, cloud, kubelets, resources of others, invariants
//	schedule  one call at a time, in an order that follows from the seed
//	calls     names of calls
//
// Every call to cloud and cluster waits for its turn, which is given to one call at a time once everything else is at rest. So
// a run follows from its seed, and a failure comes again when it is repeated.
package chaos
