// Package memory is a Kubernetes API server for tests, in the memory of the test's own process.
//
// It answers HTTP requests through a [http.RoundTripper] in the caller's goroutine: no socket, no goroutine of its own.
// So client-go, its informers and controller-runtime's managers run on it as they are, also in the virtual time of
// testing/synctest, where a goroutine in a socket would never be idle.
//
// What it does as the real one does is what the package's contract suite holds both to: resource versions and
// conflicts, preconditions, generation, finalizers and deletion, names, server-side apply with managed fields, the
// other patches, status subresources, selectors, watches, the collection of dependents, join tokens, approval of
// certificate requests, eviction under budgets.
//
// What it leaves out: validation by schema (unknown fields are pruned all the same), defaults, admission policies,
// authorization, dry runs, conversion between versions, and every controller but the garbage collector.
package memory
