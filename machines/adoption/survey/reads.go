package survey

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// object identifies a Secret or ConfigMap.
type object struct{ resource, namespace, name string }

// Reads notes which Secrets and ConfigMaps are read through a RoundTripper. It is safe for concurrent use.
type Reads struct {
	mu sync.Mutex
	// user is the Machine or group for which drover reads at present; empty while nothing is noted. users holds the first user of each
	// object.
	user  string
	users map[object]string
}

// Watch returns a RoundTripper that notes reads and otherwise behaves like next.
func (r *Reads) Watch(next http.RoundTripper) http.RoundTripper { return readWatch{r, next} }

type readWatch struct {
	reads *Reads
	next  http.RoundTripper
}

// RoundTrip sends the request.
func (w readWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	parts := strings.Split(strings.TrimPrefix(req.URL.Path, "/api/v1/namespaces/"), "/")
	if req.Method == http.MethodGet && len(parts) == 3 && (parts[1] == "secrets" || parts[1] == "configmaps") {
		w.reads.note(object{parts[1], parts[0], parts[2]})
	}
	return w.next.RoundTrip(req)
}

func (r *Reads) note(o object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = map[object]string{}
	}
	if r.users[o] == "" {
		r.users[o] = r.user
	}
}

// begin attributes the reads that follow to a user.
func (r *Reads) begin(user string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.user = user
}

// need is an object and a user who needs it.
type need struct {
	object
	user string
}

// needs returns the objects that were read for a user, sorted by namespace.
func (r *Reads) needs() []need {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []need
	for o, user := range r.users {
		if user != "" {
			all = append(all, need{o, user})
		}
	}
	slices.SortFunc(all, func(a, b need) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.resource, b.resource), cmp.Compare(a.name, b.name))
	})
	return all
}
