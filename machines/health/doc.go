// Package health replaces Machines whose Nodes have become unhealthy, under brakes that limit the number of replacements: it
// deletes the Machine, and its set creates another.
//
// A round reads the informer caches, lets package verdict decide, and acts on the decision. Before it replaces a Machine, it
// reads the Machine, its Node and its group from the API server, and records the replacement in the group's status. It deletes
// the Machine only if it is still the same one. It reports by the condition Healthy of Machines, the condition RepairHeld of
// groups, Events and metrics. The package makes no call to a cloud. A Machine without a set gets the condition and is never
// deleted.
package health
