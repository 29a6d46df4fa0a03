// Package drain empties a node: [MakePlan] decides which pods go now, which stay and which are waited for; [Drainer.Pass]
// carries one such plan out through the Eviction API; a [Crew] does so for many nodes with workers of its own. Nothing
// waits: a pass ends when the evictions have been asked for.
package drain
