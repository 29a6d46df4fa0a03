package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch is the body of the answer to a watch: who reads it gets the events that have come since, and waits for the
// next. It has no goroutine.
type watch struct {
	server *Server
	kind   *kind
	user   string
	match  func(*object) bool
	ctx    context.Context
	// until is when the server ends it; zero: never.
	until time.Time

	// bell rings for new events; closed ends the reading, by either side.
	bell   chan struct{}
	closed chan struct{}
	once   sync.Once

	// seen is the newest revision that was looked at; frames are what is to be read. The server's lock guards them.
	seen   uint64
	frames []byte
}

// watch begins to follow a kind.
func (s *Server) watch(q *request) (*watch, error) {
	match, err := q.selection()
	if err != nil {
		return nil, err
	}
	w := &watch{
		server: s, kind: q.kind, user: q.user.name, ctx: q.ctx,
		bell: make(chan struct{}, 1), closed: make(chan struct{}),
		match: func(o *object) bool { return match(o) && (q.name == "" || o.GetName() == q.name) },
	}
	if seconds, _ := strconv.Atoi(q.query.Get("timeoutSeconds")); seconds > 0 {
		w.until = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	if err := w.begin(q); err != nil {
		return nil, err
	}
	s.watches[w] = true
	return w, nil
}

// begin sets where the watch starts: after a revision, or with what there is now.
func (w *watch) begin(q *request) error {
	initial := q.query.Get("sendInitialEvents") == "true"
	from, st := q.query.Get("resourceVersion"), w.server.stores[w.kind]
	if !initial && from != "" && from != "0" {
		revision, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest("invalid resource version " + strconv.Quote(from))
		}
		w.seen = revision
		if revision < st.floor {
			w.fail(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, st.floor)))
		}
		return nil
	}
	for _, id := range st.sortedKeys() {
		if r := st.records[id]; w.match(r.object) {
			w.frame("ADDED", r.raw)
		}
	}
	w.seen = w.server.revision
	if initial {
		w.frame("BOOKMARK", fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null,"annotations":{%q:"true"}}}`,
			w.kind.Kind, w.kind.GroupVersion(), w.seen, metav1.InitialEventsAnnotationKey))
	}
	return nil
}

func (w *watch) frame(kind string, raw []byte) {
	w.frames = fmt.Appendf(w.frames, `{"type":%q,"object":%s}`+"\n", kind, raw)
}

// fail tells of an error as the last event.
func (w *watch) fail(err error) {
	_, status := failure(err)
	if raw, err := json.Marshal(status); err == nil {
		w.frame("ERROR", raw)
	}
	w.cut()
}

// Read gives what is to be told next, and waits for it.
func (w *watch) Read(p []byte) (int, error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return 0, err
		}
		n, due := w.next(p)
		if n > 0 {
			return n, nil
		}
		if !w.wait(due) {
			return 0, w.ended()
		}
	}
}

// next copies what is ready. Nothing ready: the time at which something will be, if that is known.
func (w *watch) next(p []byte) (n int, due time.Time) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	if len(w.frames) == 0 {
		due = w.gather()
	}
	n = copy(p, w.frames)
	w.frames = w.frames[n:]
	return n, due
}

// gather turns the events that are due into frames.
func (w *watch) gather() (due time.Time) {
	events := w.server.stores[w.kind].events
	var lag time.Duration
	if w.server.options.Lag != nil {
		lag = w.server.options.Lag(w.user, w.kind.plural)
	}
	start := sort.Search(len(events), func(i int) bool { return events[i].record.revision > w.seen })
	for _, e := range events[start:] {
		if at := e.at.Add(lag); at.After(time.Now()) {
			return at
		}
		w.seen = e.record.revision
		w.tell(e)
	}
	return w.until
}

// tell shows one event as it looks through the watch's selectors.
func (w *watch) tell(e event) {
	is := !e.gone && w.match(e.record.object)
	was := e.previous != nil && w.match(e.previous.object)
	switch {
	case is && was:
		w.frame("MODIFIED", e.record.raw)
	case is:
		w.frame("ADDED", e.record.raw)
	case was:
		// What is told of an object that goes out of sight is how it last was, under the revision at which it went.
		last := e.previous.object.DeepCopy()
		last.SetResourceVersion(e.record.object.GetResourceVersion())
		if raw, err := json.Marshal(last.Object); err == nil {
			w.frame("DELETED", raw)
		}
	}
}

// wait lets time pass until there may be news; false when the watch has ended.
func (w *watch) wait(due time.Time) bool {
	select {
	case <-w.closed:
		return false
	default:
	}
	var timer <-chan time.Time
	if !due.IsZero() {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-w.bell:
		return true
	case <-timer:
		return w.until.IsZero() || time.Now().Before(w.until)
	case <-w.closed:
		return false
	case <-w.ctx.Done():
		return false
	}
}

func (w *watch) ended() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return io.EOF
}

func (w *watch) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

func (w *watch) cut() { w.once.Do(func() { close(w.closed) }) }

// Close is the client's end of the watch.
func (w *watch) Close() error {
	w.cut()
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.server.watches, w)
	return nil
}

var _ io.ReadCloser = (*watch)(nil)
