// Package drain empties a node. [MakePlan] decides which pods are evicted now, which pods stay, and which pods the drain waits for.
// [Drainer.Round] carries out one such plan through the Eviction API. A [Pool] does this for many nodes with its own workers. No call
// waits for pods to end: a round ends when the evictions have been requested.
package drain
