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
// It leaves out: validation by schema (it does prune unknown fields), defaults, admission policies, webhooks, authorization, dry
// runs, the scale subresource, versions other than the stored one, grace periods of kinds other than pods, the plug-ins of admission
// but for the taint not-ready of a new Node, the signer of certificates, and every controller except the garbage collector. Tests
// write the status of disruption budgets.
//
// The rules are those of kubernetes/kubernetes 1.37. Files without a folder are in staging/src/k8s.io/apiserver/pkg/.
//
//   - names, UIDs, resource versions, conflicts, preconditions, finalizers, deletion: registry/generic/registry/store.go
//   - patches of three kinds, and server-side apply: endpoints/handlers/patch.go, endpoints/handlers/fieldmanager/
//   - pruning: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/
//   - watches with bookmarks, and 410 for a history that is gone: storage/cacher/
//   - evictions under budgets: pkg/registry/core/pod/storage/eviction.go
//   - approval of certificate requests: pkg/registry/certificates/certificates/
//   - the taint not-ready of a new Node: plugin/pkg/admission/nodetaint/admission.go
//   - the collection of dependents, in the foreground or background: pkg/controller/garbagecollector/
package memory
