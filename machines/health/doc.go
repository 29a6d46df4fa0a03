// Package health replaces Machines whose Nodes have become unhealthy: it deletes the Machine, and the Machine's set creates
// another. Brakes limit the number of replacements.
//
// A round reads the informer caches, lets package verdict decide, and acts on the decision. Before it replaces a Machine, it
// reads the Machine and its Node from the API server, and records the replacement in the group's status, if the group has not
// changed since the cache has read it. It deletes the Machine only if the Machine has not changed since that read. It reports by the condition Healthy of Machines,
// the condition RepairHeld of groups, Events and metrics. The package makes no call to a cloud. A Machine without a set gets
// the condition and is never deleted.
package health
