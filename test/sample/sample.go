// Package sample sets how much work the tests do that simulate many runs. `make test` runs a sample of the work. With the build tag
// cluster, which `make test-cluster` sets, the tests do all of it.
package sample

// Or returns part when the tests run a sample, and all when they run with the build tag cluster. It is for the defaults of a test's flags.
func Or[T any](part, all T) T {
	if whole {
		return all
	}
	return part
}
