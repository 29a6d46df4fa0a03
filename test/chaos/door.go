package chaos

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Point is a moment at which the process dies: before or after one of its calls.
type Point struct {
	// Call is the call's name, Nth says which of that name, counted from 1 from the start of the process.
	Call string
	Nth  int
	// After: the call is carried out, and its answer is never seen. Else it is never made.
	After bool
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after"
	}
	return fmt.Sprintf("%s %s #%d", when, p.Call, p.Nth)
}

// errDead is what a process that has died gets from its doors.
var errDead = errors.New("this process is dead")

// life is what the two doors of one process have in common: the calls that were made, and whether it still lives.
type life struct {
	// end is where it dies; nil: nowhere. zombie: it only loses its lease there.
	end    *Point
	zombie *zombie
	lease  lease
	// over is closed when somebody else has to take over.
	over chan struct{}

	mu    sync.Mutex
	calls []Point
	count map[string]int
	// dead: it does nothing any more. lost: it has no lease, and goes on.
	dead, lost bool
	// left is how many calls it has yet, when it is to die by their number; 0: it is not.
	left int
}

func newLife(end *Point, z *zombie) *life {
	return &life{end: end, zombie: z, over: make(chan struct{}), count: map[string]int{}}
}

// begin notes a call that is about to be made. Error: there is nobody any more to make it.
func (l *life) begin(name string) (Point, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return Point{}, errDead
	}
	l.count[name]++
	p := Point{Call: name, Nth: l.count[name]}
	l.calls = append(l.calls, p)
	spent := false
	if l.left > 0 {
		l.left--
		spent = l.left == 0
	}
	if spent {
		l.dieLocked()
	}
	l.reach(p)
	if l.dead {
		return p, errDead
	}
	return p, nil
}

// reach ends the process's time when a call is its last.
func (l *life) reach(p Point) {
	switch {
	case l.end == nil || *l.end != p:
	case l.zombie == nil:
		l.dieLocked()
	default:
		// The last renewal was any time of the last two seconds ago.
		l.lease.lose(l.zombie, time.Duration(len(l.calls)%10)*leaseRetry/10)
		close(l.over)
		l.end, l.lost = nil, true
	}
}

// finish notes that a call was carried out. Error: nobody is left to hear of it.
func (l *life) finish(p Point) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.After = true
	l.reach(p)
	if l.dead {
		return errDead
	}
	return nil
}

// diedAt reports whether the process was to die before this very call, and did.
func (l *life) diedAt(p Point) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead && l.end != nil && *l.end == p
}

func (l *life) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dieLocked()
}

func (l *life) dieLocked() {
	if !l.dead && !l.lost {
		close(l.over)
	}
	l.dead = true
}

// expire makes the process die before its nth call from now.
func (l *life) expire(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = n
}

func (l *life) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *life) made() []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// door is one side of a process's world.
type door struct {
	// life is the process's; nil: it is not drover's door, and nobody counts the calls.
	life  *life
	world *World
	next  http.RoundTripper
	name  func(*http.Request) string
}

// RoundTrip makes a call when its turn comes and the process lives.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	name := d.name(r)
	if strings.HasPrefix(name, watching) {
		r = shortWatch(r)
	}
	if !lookup(r) {
		if err := d.world.turns.await(r.Context(), name, func() string { return content(r) }); err != nil {
			return nil, err
		}
	}
	if d.life == nil {
		return d.next.RoundTrip(r)
	}
	resp, err := d.call(r, name)
	if err == nil && strings.HasPrefix(name, watching) {
		resp.Body = &news{ReadCloser: resp.Body, door: d, request: r, name: "news " + name}
	}
	return resp, err
}

// call makes a call that counts. The dead make none, but for reading from Kubernetes, which changes nothing: a manager
// of controller-runtime that is stopped before its caches have been filled never returns.
func (d door) call(r *http.Request, name string) (*http.Response, error) {
	reading := r.Method == http.MethodGet && strings.HasPrefix(name, "kube ")
	p, err := d.life.begin(name)
	if err != nil {
		if reading {
			return d.next.RoundTrip(r)
		}
		if d.life.diedAt(p) {
			d.world.holdBack(d.next, r, name)
		}
		return nil, err
	}
	if err := d.move(r); err != nil {
		return nil, err
	}
	d.world.before(r, name)
	resp, err := d.next.RoundTrip(r)
	d.world.after(r, name)
	gone := d.life.finish(p)
	if late := d.move(r); gone == nil {
		gone = late
	}
	if gone != nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, gone
	}
	return resp, err
}

// shortWatch gives a watch an end that its client has not drawn at random.
func shortWatch(r *http.Request) *http.Request {
	query := r.URL.Query()
	query.Set("timeoutSeconds", strconv.Itoa(300+len(r.URL.Path)))
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r
}

// content is all that a call says.
func content(r *http.Request) string {
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

// move waits while the process stands still.
func (d door) move(r *http.Request) error {
	if lookup(r) {
		return nil
	}
	return d.life.lease.move(r.Context())
}

// watching begins the name of a watch.
const watching = "kube WATCH "

// news is the body of a watch: what comes waits for its turn like a call, so that a change is not seen while whoever
// made it is still at work.
type news struct {
	io.ReadCloser
	door    door
	request *http.Request
	name    string
}

// Read gives what has come, when its turn comes.
func (n *news) Read(p []byte) (int, error) {
	got, err := n.ReadCloser.Read(p)
	if got == 0 {
		return got, err
	}
	if late := n.door.life.lease.move(n.request.Context()); late != nil {
		return 0, late
	}
	if late := n.door.world.turns.await(n.request.Context(), n.name, func() string { return n.request.URL.Path }); late != nil {
		return 0, late
	}
	return got, err
}

// lookup tells whether a call asks what the API server serves. Such calls take no turn: the cache of controller-runtime
// makes them under a lock, and whoever waits for a lock is not at rest.
func lookup(r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	return r.URL.Host == "kubernetes.invalid" && (parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3)
}

// identifier is a part of a path that names one thing and not a kind of things.
var identifier = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})$`)

// cloudCall names a call to the cloud: method, path without identifiers, and what a list is filtered by.
func cloudCall(r *http.Request) string {
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

// kubeletCall names a call of a kubelet.
func kubeletCall(r *http.Request) string { return "kubelet" + kubeCall(r) }

// controllersCall names a call of the cluster's own controllers.
func controllersCall(r *http.Request) string { return "controllers" + kubeCall(r) }

// kubeCall names a call to Kubernetes: verb, resource and subresource.
func kubeCall(r *http.Request) string {
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
		return watching + parts[0]
	}
	if verb == http.MethodGet && len(parts) == 1 {
		verb = "LIST"
	}
	if len(parts) > 2 {
		return "kube " + verb + " " + parts[0] + "/" + parts[2]
	}
	return "kube " + verb + " " + parts[0]
}
