//go:build cluster

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/test/openstack"
)

// The credentials of the attacker's own user in his own cloud.
const (
	malloryUser     = "mallory"
	malloryPassword = "mallory-secret"
)

const (
	// hugeBody is the size of an answer that no client should read to its end, in bytes.
	hugeBody = 3 << 29
	// keptRequest is the maximum number of bytes of a request that are kept for the assertions.
	keptRequest = 256 << 10
)

// lie holds what the attacker's cloud changes in the answers of the simulated cloud.
type lie struct {
	// server is the name of the server that the lie is about.
	server string
	// id and address replace the ID and the address of the server. If a field is empty, the answer keeps the true
	// value.
	id, address string
	// project replaces the ID of the project. If project is empty, the answer keeps the true ID.
	project string
	// deleted reports whether the server is listed as DELETED.
	deleted bool
}

// enemy holds the attacker's clouds, one for each misbehaviour. Each has its own port at an address that the operator
// has allowed.
type enemy struct {
	t *testing.T
	// cloud is the simulation that makes the answers before they are falsified. Only the attacker's own user may sign in.
	cloud *openstack.Cloud
	// inside is a service that only the operator may reach, such as one inside the cluster. drover must send it no request.
	inside *recorder
	// gate is a server on which the operator has allowed only the URLs below allowed/. No attempt uses such a URL, so no
	// request may arrive.
	gate  *recorder
	ended chan struct{}

	mu sync.Mutex
	// urls holds the clouds' URLs by misbehaviour.
	urls map[string]string
	// lies holds what each of the clouds lies about, by its misbehaviour.
	lies map[string]lie
	// tokens are all tokens that the cloud has issued.
	tokens   map[string]bool
	requests []string
	pages    int
	signIns  map[string]int
}

// recorder is an HTTP server that keeps the first line of each request.
type recorder struct {
	url string
	mu  sync.Mutex
	all []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, q.Method+" "+q.URL.String())
	_, _ = io.WriteString(w, "an answer of a service inside: "+insideText)
}

// insideText is the answer of the service that no request may reach.
const insideText = "inside-9c41"

func (r *recorder) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// listen serves a handler at a free port of a loopback address until the test ends.
func listen(t *testing.T, address string, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}

func newEnemy(t *testing.T) *enemy {
	t.Helper()
	e := &enemy{
		t: t, ended: make(chan struct{}), inside: &recorder{}, gate: &recorder{},
		urls: map[string]string{}, lies: map[string]lie{}, tokens: map[string]bool{}, signIns: map[string]int{},
	}
	e.cloud = openstack.New(openstack.Config{BootTime: time.Second, Seed: func(c *openstack.Cloud) {
		openstack.SeedMetaKube(c)
		c.AddUser(openstack.User{Name: malloryUser, Password: malloryPassword, Projects: []string{openstack.MetaKubeProject}})
	}})
	e.inside.url = listen(t, "127.0.0.3", e.inside)
	e.gate.url = listen(t, "127.0.0.4", e.gate)
	if err := e.cloud.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(e.ended)
		e.cloud.Close()
	})
	return e
}

// allowed returns the value of the operator's flag --allowed-endpoints.
func (e *enemy) allowed() string { return "127.0.0.2," + e.gate.url + "/allowed" }

// at returns the URL of the cloud with this misbehaviour. It creates the cloud at the first call.
func (e *enemy) at(behaviour string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.urls[behaviour] == "" {
		e.urls[behaviour] = listen(e.t, "127.0.0.2", e.misbehaving(behaviour))
	}
	return e.urls[behaviour]
}

// keystone returns the identity endpoint of the cloud with the given misbehaviour.
func (e *enemy) keystone(behaviour string) string { return e.at(behaviour) + "/identity/v3" }

// tell sets what the cloud with the given misbehaviour lies about from now on.
func (e *enemy) tell(behaviour string, l lie) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lies[behaviour] = l
}

// misbehaving returns the handler of a cloud with this misbehaviour. It records all requests.
func (e *enemy) misbehaving(behaviour string) http.HandlerFunc {
	kind, _, _ := strings.Cut(behaviour, "-")
	answer, ok := map[string]http.HandlerFunc{
		"hangs": e.hang, "huge": huge, "redirects": e.redirect, "later": later, "garbage": garbage, "storm": storm,
		"beyond": beyond, "bomb": bomb, "drips": e.drip, "mirrored": mirrored, "wordy": wordy, "headers": headers,
	}[kind]
	if !ok {
		answer = func(w http.ResponseWriter, r *http.Request) { e.lieAbout(w, r, behaviour) }
	}
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := httputil.DumpRequest(r, r.ContentLength < keptRequest)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.requests = append(e.requests, string(text))
		if strings.HasSuffix(r.URL.Path, "/auth/tokens") {
			e.signIns[behaviour]++
		}
		e.mu.Unlock()
		answer(w, r)
	}
}

func (e *enemy) hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-e.ended:
	}
}

// huge answers a sign-in with a body that is far too large. It stops when the client stops reading.
func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Subject-Token", "huge")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, err := io.WriteString(w, `{"token":{"methods":["`)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for n := 0; err == nil && n < hugeBody; n += len(chunk) {
		_, err = w.Write(chunk)
	}
}

func (e *enemy) redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, e.inside.url+r.URL.Path, http.StatusTemporaryRedirect)
}

func later(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "86400")
	http.Error(w, "{}", http.StatusTooManyRequests)
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Subject-Token", "garbage")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, strings.Repeat("{", 100_000))
}

func storm(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`)
}

// lieAbout forwards the request to the simulation, and changes what its answer says about servers.
func (e *enemy) lieAbout(w http.ResponseWriter, r *http.Request, behaviour string) {
	if strings.HasPrefix(behaviour, "tagged") && strings.HasSuffix(r.URL.Path, "/servers/detail") {
		tagged(w)
		return
	}
	if strings.HasPrefix(behaviour, "endless") && strings.HasSuffix(r.URL.Path, "/servers/detail") {
		_, _ = w.Write(e.endless(e.at(behaviour)))
		return
	}
	swap := e.swaps(behaviour)
	in := r.Clone(r.Context())
	in.URL.RawPath, in.Host = "", "enemy.invalid"
	body, err := io.ReadAll(io.LimitReader(r.Body, keptRequest))
	if err != nil {
		return
	}
	for truth, lie := range swap {
		in.URL.Path = strings.ReplaceAll(in.URL.Path, lie, truth)
		in.URL.RawQuery = strings.ReplaceAll(in.URL.RawQuery, lie, truth)
		body = bytes.ReplaceAll(body, []byte(lie), []byte(truth))
	}
	in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer, err := e.cloud.RoundTripper().RoundTrip(in)
	if err != nil {
		return
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err = io.ReadAll(answer.Body); err != nil {
		return
	}
	// The replacements are computed again, because the forwarded request may have created the server about which the
	// cloud lies.
	for truth, lie := range e.swaps(behaviour) {
		body = bytes.ReplaceAll(body, []byte(truth), []byte(lie))
	}
	if token := answer.Header.Get("X-Subject-Token"); token != "" {
		e.mu.Lock()
		e.tokens[token] = true
		e.mu.Unlock()
	}
	maps.Copy(w.Header(), answer.Header)
	w.Header().Del("Content-Length")
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(e.misled(behaviour, body))
}

// misled replaces the URLs in an answer, for some misbehaviours with wrong URLs. It also shows all ACTIVE servers as
// DELETED if the lie says so.
func (e *enemy) misled(behaviour string, body []byte) []byte {
	base := e.at(behaviour)
	switch {
	case strings.HasPrefix(behaviour, "inside"):
		base = e.inside.url
	case strings.HasPrefix(behaviour, "unreadable"):
		base = "http://%ff.invalid"
	}
	body = bytes.ReplaceAll(body, []byte("http://enemy.invalid"), []byte(base))
	e.mu.Lock()
	gone := e.lies[behaviour].deleted
	e.mu.Unlock()
	if gone {
		body = bytes.ReplaceAll(body, []byte(`"status":"ACTIVE"`), []byte(`"status":"DELETED"`))
	}
	return body
}

// endless returns a page of a list that links to a next page. The list has 1500 pages of 300 kB.
func (e *enemy) endless(base string) []byte {
	// If drover reads the list to its end it holds 1 GB. The test then fails, but the machine does not run out of memory.
	const rows, mostPages = 1000, 1500
	row := `{"id":"%08x-0000-4000-8000-%012x","name":"endless","status":"ACTIVE","metadata":{"x":"` + strings.Repeat("x", 200) + `"}}`
	e.mu.Lock()
	e.pages++
	page := e.pages
	e.mu.Unlock()
	if page > mostPages {
		return []byte(`{"servers":[]}`)
	}
	var out bytes.Buffer
	out.WriteString(`{"servers":[`)
	for i := range rows {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, row, page, i)
	}
	fmt.Fprintf(&out, `],"servers_links":[{"rel":"next","href":"%s/compute/v2.1/servers/detail?marker=%d"}]}`, base, page)
	return out.Bytes()
}

// swaps returns what is replaced in the answers of the cloud with the given misbehaviour: each true text, with the
// false text that takes its place.
func (e *enemy) swaps(behaviour string) map[string]string {
	e.mu.Lock()
	l := e.lies[behaviour]
	e.mu.Unlock()
	out := map[string]string{}
	if l.project != "" {
		out[e.cloud.AddProject(openstack.MetaKubeProject, "")] = l.project
	}
	for _, s := range e.cloud.Servers() {
		if s.Name != l.server {
			continue
		}
		if l.id != "" {
			out[s.ID] = l.id
		}
		for _, ip := range s.FixedIPs {
			if l.address != "" {
				out[`"`+ip+`"`] = `"` + l.address + `"`
			}
		}
	}
	return out
}
