// Package lifecycle is the life of a Machine as one table: [Next] returns the next step, with its reason, from a set of facts.
// The package also defines the facts, grouped by how long they are valid, and the reasons that conditions show. It is pure: it
// has no client, clock or logger, and no step is carried out here.
package lifecycle
