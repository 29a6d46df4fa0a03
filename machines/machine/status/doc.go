// Package status computes the status of a Machine from the facts and the result of a reconcile ([Compute]), reads and sets
// its conditions, and decides which changes must be written immediately ([Urgent]). It is pure: it has no client and no
// clock, and never asks a cloud.
package status
