package chaos

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// holdBack lets a create arrive after the process that sent it has died, as a network may. Only creates of servers, ports and
// floating IPs are held back, and only in stories that ask for it.
func (w *World) holdBack(next http.RoundTripper, r *http.Request, name string) {
	if w.held == 0 || !isCreate(name) {
		return
	}
	late := r.Clone(context.WithoutCancel(r.Context()))
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return
		}
		late.Body = body
	}
	w.mu.Lock()
	w.ordered = true
	w.mu.Unlock()
	w.all.Go(func() {
		if !sleep(w.ctx, w.held) || w.turns.await(w.ctx, "late "+name, func() string { return content(late) }) != nil {
			return
		}
		if resp, err := next.RoundTrip(late); err == nil {
			_ = resp.Body.Close()
		}
	})
}

// isCreate reports whether the call of that name makes a server, a port or a floating IP.
func isCreate(name string) bool {
	return strings.HasPrefix(name, "cloud POST ") && slices.ContainsFunc([]string{"/servers", "/ports", "/floatingips"}, func(kind string) bool {
		return strings.HasSuffix(name, kind)
	})
}

// Special returns the crash points that a story is about; nil: all alike.
func (s Story) Special(points []Point) []Point {
	if s.held == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.After || !isCreate(p.Call) })
}

// lateOrder reports whether a create was held back.
func (w *World) lateOrder() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ordered
}
