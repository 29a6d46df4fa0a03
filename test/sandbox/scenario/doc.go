// Package scenario holds what the sandbox runs: the stages of the demo, each with a condition to reach and a time limit, and the
// trials, which cause faults while an autoscaler works.
package scenario
