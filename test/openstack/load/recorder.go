package load

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is one request as the client saw it.
type Request struct {
	// Kind is the request's verb and collection, such as `POST /ports`.
	Kind string
	// Subject is the Machine for which the request was made; empty for other requests.
	Subject string
	// Sent and Ended are when the request was sent and when its answer arrived.
	Sent, Ended time.Time
}

// Recorder records the requests that pass through it.
type Recorder struct {
	Next http.RoundTripper

	mu  sync.Mutex
	all []Request
}

type subjectKey struct{}

// For returns a context whose requests are recorded as requests for the Machine subject.
func For(ctx context.Context, subject string) context.Context {
	return context.WithValue(ctx, subjectKey{}, subject)
}

// RoundTrip sends a request and records it when it has been answered.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	subject, _ := req.Context().Value(subjectKey{}).(string)
	one := Request{Kind: kind(req), Subject: subject, Sent: time.Now()}
	resp, err := r.Next.RoundTrip(req)
	one.Ended = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
	return resp, err
}

func kind(req *http.Request) string {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	collection := parts[len(parts)-1]
	if req.Method == http.MethodDelete && len(parts) > 1 {
		collection = parts[len(parts)-2]
	}
	return req.Method + " /" + collection
}

// Forget drops all records.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

// Requests returns the answered requests of a kind in the order in which they were sent.
func (r *Recorder) Requests(kind string) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Request
	for _, one := range r.all {
		if one.Kind == kind {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b Request) int { return a.Sent.Compare(b.Sent) })
	return out
}

// Last returns when the last request of a kind was answered; zero when there was none.
func (r *Recorder) Last(kind string) (last time.Time) {
	for _, one := range r.Requests(kind) {
		if one.Ended.After(last) {
			last = one.Ended
		}
	}
	return last
}

// Idle is how long the cloud had nothing to do although a Machine was waiting.
type Idle struct {
	// Kind is how long a Machine waited to send a request of one kind while no request of that kind was in flight. It is
	// the longest such time of all kinds.
	Kind time.Duration
	// Any is how long a Machine waited while no request of any kind was in flight.
	Any time.Duration
}

// Idle measures, from the given time on, how long the cloud was idle although a Machine waited. Each Machine sends
// requests of the given kinds one after the other.
func (r *Recorder) Idle(began time.Time, kinds ...string) Idle {
	var idle Idle
	var waited, flown spans
	ready := map[string]time.Time{}
	for _, kind := range kinds {
		var waits, flights spans
		for _, one := range r.Requests(kind) {
			from, known := ready[one.Subject]
			if !known {
				from = began
			}
			waits = append(waits, span{from, one.Sent})
			flights = append(flights, span{one.Sent, one.Ended})
			ready[one.Subject] = one.Ended
		}
		idle.Kind = max(idle.Kind, waits.without(flights))
		waited, flown = append(waited, waits...), append(flown, flights...)
	}
	idle.Any = waited.without(flown)
	return idle
}

// span is a period of time.
type span struct{ from, until time.Time }

type spans []span

// without returns the total time that is in a span of s, but in none of the other spans.
func (s spans) without(others spans) time.Duration {
	var edges []time.Time
	for _, one := range slices.Concat(s, others) {
		edges = append(edges, one.from, one.until)
	}
	slices.SortFunc(edges, time.Time.Compare)
	var sum time.Duration
	for n := 1; n < len(edges); n++ {
		if piece := (span{edges[n-1], edges[n]}); s.cover(piece) && !others.cover(piece) {
			sum += piece.until.Sub(piece.from)
		}
	}
	return sum
}

func (s spans) cover(piece span) bool {
	return slices.ContainsFunc(s, func(one span) bool { return !one.from.After(piece.from) && !one.until.Before(piece.until) })
}
