// Package scenario is what the demo shows: stages, each with something that must come true and a time until when.
package scenario
