package openstack

import (
	"net/http"
	"slices"
	"strings"
)

// The services, named by the first part of their path.
const (
	serviceIdentity = "identity"
	serviceCompute  = "compute"
	serviceNetwork  = "network"
	serviceImage    = "image"
	serviceVolume   = "volume"
)

// prefixes are what stands before a service's own paths; the path templates of the log begin after it.
var prefixes = map[string]string{
	serviceIdentity: "/identity/v3",
	serviceCompute:  "/compute/v2.1",
	serviceNetwork:  "/network/v2.0",
	serviceImage:    "/image/v2",
	serviceVolume:   "/volume/v3/{project}",
}

type route struct {
	service, method, path string
	segments              []string
	// open: no token is needed.
	open   bool
	handle func(*request) reply
}

type router struct{ byLength map[int][]route }

func (rt *router) add(service, method, path string, handle func(*request) reply) {
	rt.put(route{service: service, method: method, path: path, handle: handle}, prefixes[service]+path)
}

// open adds a path that needs no token; it is written with its whole prefix.
func (rt *router) open(service, full, path string, handle func(*request) reply) {
	rt.put(route{service: service, method: http.MethodGet, path: path, open: true, handle: handle}, full)
}

func (rt *router) put(r route, full string) {
	r.segments = split(full)
	rt.byLength[len(r.segments)] = append(rt.byLength[len(r.segments)], r)
}

// newRouter returns a router of the routes that the services add.
func newRouter(services ...func(*router)) *router {
	rt := &router{byLength: map[int][]route{}}
	for _, add := range services {
		add(rt)
	}
	for _, routes := range rt.byLength {
		// What is spelled out goes before what is a parameter.
		slices.SortStableFunc(routes, func(a, b route) int { return parameters(a) - parameters(b) })
	}
	return rt
}

func split(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

func parameters(r route) int {
	n := 0
	for _, s := range r.segments {
		if strings.HasPrefix(s, "{") {
			n++
		}
	}
	return n
}

// match finds the route of a call and sets its path values.
func (rt *router) match(r *http.Request) (route, bool) {
	got := split(r.URL.Path)
	for _, candidate := range rt.byLength[len(got)] {
		if candidate.method != r.Method || !fits(candidate.segments, got) {
			continue
		}
		for i, s := range candidate.segments {
			if strings.HasPrefix(s, "{") {
				r.SetPathValue(strings.Trim(s, "{}"), got[i])
			}
		}
		return candidate, true
	}
	unknown := route{method: r.Method, path: r.URL.Path}
	if _, known := prefixes[got[0]]; known {
		unknown.service = got[0]
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
