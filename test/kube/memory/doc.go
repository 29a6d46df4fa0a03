// Package memory is a Kubernetes API server for tests, in the memory of the test's own process.
//
// It answers HTTP requests through a [http.RoundTripper] in the caller's goroutine, without a socket or a goroutine of
// its own. Therefore client-go, its informers and controller-runtime's managers work with it unchanged, also in the
// virtual time of testing/synctest, where a goroutine that reads from a socket would never count as idle.
//
// The package's contract suite compares it with the real server in: resource versions and conflicts, preconditions,
// generation, finalizers and deletion, names, server-side apply with managed fields, the other patches, status
// subresources, selectors, watches, the collection of dependents, join tokens, approval of certificate requests, and
// eviction under budgets.
//
// It leaves out: validation by schema (it does prune unknown fields), defaults, admission policies, authorization, dry
// runs, conversion between versions, and every controller except the garbage collector.
package memory
