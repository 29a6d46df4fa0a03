// Package calls returns names for the HTTP calls of a run. A name describes the call without the parts that differ
// between runs, such as IDs. The package holds no state and makes no calls.
package calls

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

const (
	// watch is the prefix of the names of watches.
	watch = "kube WATCH "
	// kubernetesHost is the host of the API server in memory.
	kubernetesHost = "kubernetes.invalid"
)

// identifier matches a path element that is an object's ID.
var identifier = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})$`)

// Cloud returns the name of a call to the cloud: the method, the path without IDs, and whether it is a changes-since list.
func Cloud(r *http.Request) string {
	parts := strings.Split(r.URL.Path, "/")
	for i := range parts {
		if identifier.MatchString(parts[i]) {
			parts[i] = "{id}"
		}
	}
	name := r.Method + " " + strings.Join(parts, "/")
	if r.URL.Query().Has("changes-since") {
		name += "?changes-since"
	}
	return "cloud " + name
}

// Kube returns the name of a call of drover to Kubernetes: the verb, the resource and the subresource.
func Kube(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return "kube " + r.Method + " /" + strings.Join(parts, "/")
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb := r.Method
	if r.URL.Query().Has("watch") {
		return watch + parts[0]
	}
	if verb == http.MethodGet && len(parts) == 1 {
		verb = "LIST"
	}
	if len(parts) > 2 {
		return "kube " + verb + " " + parts[0] + "/" + parts[2]
	}
	return "kube " + verb + " " + parts[0]
}

// Kubelet returns the name of a kubelet's call.
func Kubelet(r *http.Request) string { return "kubelet" + Kube(r) }

// Controllers returns the name of a call of the simulated kube-controller-manager.
func Controllers(r *http.Request) string { return "controllers" + Kube(r) }

// IsKube reports whether name is that of a call of drover to Kubernetes.
func IsKube(name string) bool { return strings.HasPrefix(name, "kube ") }

// IsWatch reports whether name is that of a watch.
func IsWatch(name string) bool { return strings.HasPrefix(name, watch) }

// Watched returns the resource that the named call watches, in the plural; ok is false when the call is not a watch.
func Watched(name string) (kind string, ok bool) { return strings.CutPrefix(name, watch) }

// IsCreate reports whether the named call creates a server, a port or a floating IP.
func IsCreate(name string) bool {
	return strings.HasPrefix(name, "cloud POST ") && slices.ContainsFunc([]string{"/servers", "/ports", "/floatingips"}, func(kind string) bool {
		return strings.HasSuffix(name, kind)
	})
}

// CreatesObject reports whether the named call of drover creates a Machine or a Secret.
func CreatesObject(name string) bool {
	return name == "kube POST machines" || name == "kube POST secrets"
}

// IsDiscovery reports whether a request reads the API server's discovery documents.
func IsDiscovery(r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	return r.URL.Host == kubernetesHost && (parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3)
}

// IsDiscoveryName reports whether the named call of drover reads the API server's discovery documents.
func IsDiscoveryName(name string) bool { return strings.HasPrefix(name, "kube GET /") }

// Content returns the URL and the body of a call.
func Content(r *http.Request) string {
	text := r.URL.String()
	if r.GetBody == nil {
		return text
	}
	body, err := r.GetBody()
	if err != nil {
		return text
	}
	raw, _ := io.ReadAll(body)
	return text + string(raw)
}
