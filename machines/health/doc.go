// Package health replaces Machines whose Nodes have become unhealthy, under brakes: it deletes the Machine, and its set makes
// another.
//
// A pass reads the informer caches, has package verdict decide, and acts on what was decided: it reads a Machine that is to be
// replaced, its Node and its group from the API server, records the replacement in the group's status, and deletes the Machine
// if it is still the one that was judged. What it shows are the condition Healthy of Machines, the condition RepairHeld of
// groups, Events and metrics. The package makes no call to a cloud. A Machine that no set controls is marked and never deleted.
package health
