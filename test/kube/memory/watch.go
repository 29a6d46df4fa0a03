package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
	"github.com/drover-project/drover/test/kube/memory/internal/registry"
	"github.com/drover-project/drover/test/kube/memory/internal/store"
)

// watch is the body of the answer to a watch. Its reader gets the events since the last read, and waits for the
// next event. It has no goroutine.
type watch struct {
	server *Server
	kind   *catalog.Kind
	user   string
	match  func(*catalog.Object) bool
	ctx    context.Context
	// until is the time at which the server ends the watch. Zero means never.
	until time.Time

	// bell signals new events. closed is closed when the client or the server ends the watch.
	bell   chan struct{}
	closed chan struct{}
	once   sync.Once

	// seen is the newest revision that the watch has processed. frames are the encoded events that are not read
	// yet. The server's lock guards both.
	seen   uint64
	frames []byte
}

// watch starts a watch of a kind.
func (s *Server) watch(q *registry.Request) (*watch, error) {
	match, err := q.Selection()
	if err != nil {
		return nil, err
	}
	w := &watch{
		server: s, kind: q.Kind, user: q.User.Name, ctx: q.Ctx,
		bell: make(chan struct{}, 1), closed: make(chan struct{}),
		match: func(o *catalog.Object) bool { return match(o) && (q.Name == "" || o.GetName() == q.Name) },
	}
	if seconds, _ := strconv.Atoi(q.Query.Get("timeoutSeconds")); seconds > 0 {
		w.until = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	if err := w.begin(q); err != nil {
		return nil, err
	}
	s.store.Follow(w)
	return w, nil
}

// begin sets the start of the watch: after a revision, or with the existing objects.
func (w *watch) begin(q *registry.Request) error {
	initial := q.Query.Get("sendInitialEvents") == "true"
	from := q.Query.Get("resourceVersion")
	if !initial && from != "" && from != "0" {
		revision, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest("invalid resource version " + strconv.Quote(from))
		}
		w.seen = revision
		if floor := w.server.store.Floor(w.kind); revision < floor {
			w.fail(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, floor)))
		}
		return nil
	}
	for _, r := range w.server.store.All(w.kind) {
		if w.match(r.Object) {
			w.frame("ADDED", r.Raw)
		}
	}
	w.seen = w.server.store.Newest()
	if initial {
		w.frame("BOOKMARK", fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null,"annotations":{%q:"true"}}}`,
			w.kind.Kind, w.kind.GroupVersion(), w.seen, metav1.InitialEventsAnnotationKey))
	}
	return nil
}

func (w *watch) frame(kind string, raw []byte) {
	w.frames = fmt.Appendf(w.frames, `{"type":%q,"object":%s}`+"\n", kind, raw)
}

// fail sends an error as the last event.
func (w *watch) fail(err error) {
	_, status := failure(err)
	if raw, err := json.Marshal(status); err == nil {
		w.frame("ERROR", raw)
	}
	w.Cut()
}

// Read returns the next event, and waits for it if necessary.
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

// next copies the bytes that are ready into p. If there are none, due is the time at which the next bytes will be ready, if
// that is known.
func (w *watch) next(p []byte) (n int, due time.Time) {
	w.server.store.Do(func() {
		if len(w.frames) == 0 {
			due = w.gather()
		}
		n = copy(p, w.frames)
		w.frames = w.frames[n:]
	})
	return n, due
}

// gather encodes the events that are due, and returns the time at which the next event is due or the watch ends.
func (w *watch) gather() (due time.Time) {
	for _, e := range w.server.store.Since(w.kind, w.seen) {
		if at := e.At.Add(w.lag(e.At)); at.After(time.Now()) {
			if !w.until.IsZero() && w.until.Before(at) {
				return w.until
			}
			return at
		}
		w.seen = e.Record.Revision
		w.tell(e)
	}
	return w.until
}

// lag returns the delay until the watch shows a change that was written at that time.
func (w *watch) lag(written time.Time) time.Duration {
	if w.server.options.Lag == nil {
		return 0
	}
	return w.server.options.Lag(w.user, w.kind.Plural, written)
}

// tell encodes one event. An object that begins to match the watch's selectors is ADDED, and an object that no longer
// matches is DELETED.
func (w *watch) tell(e store.Event) {
	is := !e.Gone && w.match(e.Record.Object)
	was := e.Previous != nil && w.match(e.Previous.Object)
	switch {
	case is && was:
		w.frame("MODIFIED", e.Record.Raw)
	case is:
		w.frame("ADDED", e.Record.Raw)
	case was:
		// The event of an object that leaves the selection has its last state, and the revision at which it left.
		last := e.Previous.Object.DeepCopy()
		last.SetResourceVersion(e.Record.Object.GetResourceVersion())
		if raw, err := json.Marshal(last.Object); err == nil {
			w.frame("DELETED", raw)
		}
	}
}

// wait blocks until there may be an event. It returns false when the watch has ended.
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

// Watched returns the kind of the watched objects.
func (w *watch) Watched() *catalog.Kind { return w.kind }

// Seen returns the newest revision that the watch has processed.
func (w *watch) Seen() uint64 { return w.seen }

// Ring announces a new event.
func (w *watch) Ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// Cut ends the watch.
func (w *watch) Cut() { w.once.Do(func() { close(w.closed) }) }

// Close ends the watch from the client's side.
func (w *watch) Close() error {
	w.Cut()
	w.server.store.Do(func() { w.server.store.Unfollow(w) })
	return nil
}

var _ io.ReadCloser = (*watch)(nil)
