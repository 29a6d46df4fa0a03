package day

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// counts holds how often drover was started, and how often it made each call to the API server.
type counts struct {
	starts atomic.Int64

	mu   sync.Mutex
	kube map[string]int
}

// kubeCall counts a call to the API server, by verb and resource.
func (c *counts) kubeCall(r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kube == nil {
		c.kube = map[string]int{}
	}
	c.kube[r.Method+" "+resourceIn(r.URL.Path)]++
}

// resourceIn returns the resource and subresource of a path: "machines", "machinesets/status".
func resourceIn(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) < skip+1 {
		return "discovery"
	}
	parts = parts[skip:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}

// calls returns how often each call was made so far.
func (c *counts) calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.kube)
}

// since returns the calls that were made between two counts: then is the earlier count, and now the later one.
func since(then, now map[string]int) map[string]int {
	more := map[string]int{}
	for name, n := range now {
		if n > then[name] {
			more[name] = n - then[name]
		}
	}
	return more
}

// writes returns the number of calls that change an object. Leases and Events are not counted.
func writes(calls map[string]int) (n int) {
	for name, count := range calls {
		verb, resource, _ := strings.Cut(name, " ")
		if verb != http.MethodGet && resource != "leases" && resource != "events" && resource != "discovery" && !strings.Contains(resource, "reviews") {
			n += count
		}
	}
	return n
}

// lines returns a list of calls, the most frequent first.
func lines(calls map[string]int) string {
	names := slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return calls[b] - calls[a] })
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, " %s: %d;", name, calls[name])
	}
	return b.String()
}
