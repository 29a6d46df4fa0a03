// Package doccommands runs the commands of the documentation as tests. It runs a block of a page whose language is sh,
// exactly as it is written, in a shell with kubectl and the kubeconfig of a test's cluster.
//
// A comment on the line above each block says what happens to the block:
//
//	<!-- test: backup -->              a test runs it, as docs/operations.md#backup
//	<!-- not run: needs the internet --> no test does, for this reason
//
// This package's own test fails for a block of README.md or docs/ that has no such comment, and for a name that no test
// uses.
package doccommands
