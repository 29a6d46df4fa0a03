// Package lifecycle is the life of a Machine as one table: facts in, the next step with its reason out ([Next]). It also
// holds the facts, grouped by how long they hold, and the reasons that conditions show. All of it is pure: it has no client,
// clock or logger, and does not know how a step is carried out.
package lifecycle
