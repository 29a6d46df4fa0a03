package client

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Service is one of the cloud's APIs.
type Service string

// The services that drover uses.
const (
	Identity Service = "identity"
	Compute  Service = "compute"
	Network  Service = "network"
	Image    Service = "image"
	Volume   Service = "volume"
)

type (
	serviceKey struct{}
	callerKey  struct{}
)

// withCaller returns a context for calls on behalf of a Machine.
func withCaller(ctx context.Context, by Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, by)
}

// callerOf returns the caller of a request. A token request has none, because any call can trigger it and all callers use the token.
func callerOf(req *http.Request) Caller {
	if serviceOf(req) == Identity {
		return Caller{}
	}
	by, _ := req.Context().Value(callerKey{}).(Caller)
	return by
}

// withService returns a context whose calls go to one API.
func withService(ctx context.Context, s Service) context.Context {
	return context.WithValue(ctx, serviceKey{}, s)
}

// serviceOf returns the API of a request. A token request goes to Keystone, even when a call to another API triggers it.
func serviceOf(req *http.Request) Service {
	if s, ok := req.Context().Value(serviceKey{}).(Service); ok && !strings.HasSuffix(req.URL.Path, "/auth/tokens") {
		return s
	}
	return Identity
}

// Call describes a call to the cloud, for its error and for the limiter.
type Call struct {
	Service Service
	// Doing describes the call in errors, for example "creating port 0 of kube-system/a".
	Doing string
	// Version is the row of the table of microversions (versions.go) for a call to Nova.
	Version Version
	// By is for whom the call is made. It may be zero.
	By Caller
}

// Caller is the Machine for which a request is made, and its node group. The limiter of an endpoint serves the groups in turn. When a
// request for a Machine has to wait for its turn, it fails with fault.CodeWaitingForTurn, the Machine's reconcile ends, and the Machine is
// woken when the turn comes. A request without a UID itself waits.
type Caller struct {
	// Group is empty for a request on behalf of all groups.
	Group string
	// UID identifies the Machine, because a later Machine of the same name has the same key.
	UID types.UID
	Key types.NamespacedName
}

// requestKind is a verb and a collection, for example POST ports. Each kind has its own line, so that
// slow requests of one kind, for example creations, hold up no others, for example deletions.
type requestKind struct{ verb, collection string }

// versionSegment reports whether a path segment is the version of the API.
func versionSegment(s string) bool {
	return len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789.") == ""
}

// requestKindOf returns the verb of a request and the collection in its path.
func requestKindOf(req *http.Request) requestKind {
	collection, _ := splitPath(req.URL.Path)
	return requestKind{req.Method, printable(collection)}
}

// splitPath returns the collection in the path of a request, and what follows it: the ID of a resource, or nothing.
func splitPath(path string) (collection, id string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := len(parts) - 1
	for i, part := range parts {
		if versionSegment(part) && i+1 < len(parts) {
			at = i + 1
			if i+2 < len(parts) && LooksLikeID(parts[at]) {
				at = i + 2
			}
		}
	}
	if at+1 < len(parts) {
		id = parts[at+1]
	}
	return parts[at], id
}

// printable returns a part of a URL as valid UTF-8, for a metric label. A catalog can have a host or path with invalid bytes, and
// one metric with an invalid label makes the whole scrape fail.
func printable(part string) string { return strings.ToValidUTF8(part, "\uFFFD") }

// LooksLikeID reports whether a text has the form of an OpenStack ID: 32 hexadecimal digits, with or without dashes.
func LooksLikeID(text string) bool {
	digits := strings.ReplaceAll(text, "-", "")
	return len(digits) == 32 && strings.Trim(strings.ToLower(digits), "0123456789abcdef") == ""
}
