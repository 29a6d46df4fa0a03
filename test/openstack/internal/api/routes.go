package api

import (
	"net/http"
	"slices"
	"strings"
)

// The services, named by the first part of their path.
const (
	ServiceIdentity = "identity"
	ServiceCompute  = "compute"
	ServiceNetwork  = "network"
	ServiceImage    = "image"
	ServiceVolume   = "volume"
)

// prefixes are the prefixes of the services' paths; the path templates in the log omit them.
var prefixes = map[string]string{
	ServiceIdentity: "/identity/v3",
	ServiceCompute:  "/compute/v2.1",
	ServiceNetwork:  "/network/v2.0",
	ServiceImage:    "/image/v2",
	ServiceVolume:   "/volume/v3/{project}",
}

// Route is one kind of call and its handler.
type Route struct {
	Service, Method, Path string
	segments              []string
	// Open is true when the route needs no token.
	Open   bool
	Handle func(*Request) Reply
}

// Router finds the route of a call.
type Router struct{ byLength map[int][]Route }

// Add adds a route for one kind of call to a service. path is relative to the service's prefix.
func (rt *Router) Add(service, method, path string, handle func(*Request) Reply) {
	rt.Put(Route{Service: service, Method: method, Path: path, Handle: handle}, prefixes[service]+path)
}

// Open adds a route for GET calls that need no token. The argument full is the whole path in the URL, and path is the
// path template in the log.
func (rt *Router) Open(service, full, path string, handle func(*Request) Reply) {
	rt.Put(Route{Service: service, Method: http.MethodGet, Path: path, Open: true, Handle: handle}, full)
}

// Put adds a route. The argument full is the whole path in the URL, with the service's prefix.
func (rt *Router) Put(r Route, full string) {
	r.segments = Split(full)
	rt.byLength[len(r.segments)] = append(rt.byLength[len(r.segments)], r)
}

// NewRouter returns a router with the routes that the services add.
func NewRouter(services ...func(*Router)) *Router {
	rt := &Router{byLength: map[int][]Route{}}
	for _, add := range services {
		add(rt)
	}
	for _, routes := range rt.byLength {
		// Routes with fewer parameters come first, so that a literal path segment has precedence over a parameter such
		// as {id}.
		slices.SortStableFunc(routes, func(a, b Route) int { return parameters(a) - parameters(b) })
	}
	return rt
}

// Split returns the segments of a path.
func Split(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

func parameters(r Route) int {
	n := 0
	for _, s := range r.segments {
		if strings.HasPrefix(s, "{") {
			n++
		}
	}
	return n
}

// Match finds the route of a call and sets its path values.
func (rt *Router) Match(r *http.Request) (Route, bool) {
	got := Split(r.URL.Path)
	for _, candidate := range rt.byLength[len(got)] {
		if candidate.Method != r.Method || !fits(candidate.segments, got) {
			continue
		}
		for i, s := range candidate.segments {
			if strings.HasPrefix(s, "{") {
				r.SetPathValue(strings.Trim(s, "{}"), got[i])
			}
		}
		return candidate, true
	}
	unknown := Route{Method: r.Method, Path: r.URL.Path}
	if _, known := prefixes[got[0]]; known {
		unknown.Service = got[0]
	}
	return unknown, false
}

func fits(template, got []string) bool {
	for i, s := range template {
		if s != got[i] && !strings.HasPrefix(s, "{") {
			return false
		}
	}
	return true
}
