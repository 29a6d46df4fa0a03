package client

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/machines/fault"
)

// endless returns a handler that answers with a JSON string of limit bytes, and counts the bytes that were sent.
func endless(sent *atomic.Int64, status int, begin string, limit int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Subject-Token", "token")
		w.WriteHeader(status)
		n, err := fmt.Fprint(w, begin)
		chunk := []byte(strings.Repeat("x", 1<<20))
		for sent.Add(int64(n)); err == nil && sent.Load() < limit; sent.Add(int64(n)) {
			n, err = w.Write(chunk)
		}
		_, _ = fmt.Fprint(w, `"}`)
	}
}

func TestSizeLimitOfResponses(t *testing.T) {
	const huge = 1536 << 20
	t.Run("a sign-in response of 1.5 GiB is refused and uses little memory (F-8)", func(t *testing.T) {
		var sent atomic.Int64
		c := newTestCloud(t, map[string]http.HandlerFunc{"POST /v3/auth/tokens": endless(&sent, http.StatusCreated, `{"token":"`, huge)})
		s := c.session(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Scope(t.Context())
		runtime.ReadMemStats(&after)
		if e := fault.Of(err); e == nil || e.Class != fault.Transient || e.Code != fault.CodeForeignAnswer ||
			!strings.Contains(e.Message, strings.TrimPrefix(c.URL, "http://")+" sent an answer of more than 4 MiB") {
			t.Errorf("got %v", err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 || sent.Load() > 32<<20 {
			t.Errorf("%d MiB were allocated and %d MiB were sent, want at most 64 and 32", used>>20, sent.Load()>>20)
		}
	})
	t.Run("a response of 5 MiB with a single object is refused, and the error shows the limit of 4 MiB (F-8)", func(t *testing.T) {
		var sent atomic.Int64
		c := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/servers/a": endless(&sent, http.StatusOK, `{"server":"`, 5<<20)})
		if err := get(t.Context(), c.session(t), "servers/a"); !fault.Is(err, fault.Transient) || !strings.Contains(err.Error(), "more than 4 MiB") {
			t.Errorf("got %v", err)
		}
	})
	for name, tc := range map[string]struct {
		row  string
		rows int
		want string // a part of the error; empty when the list is accepted
	}{
		"a page of a list with 20 MiB is accepted (F-8)":           {`{"id":"` + strings.Repeat("x", 20<<10) + `"}`, 1 << 10, ""},
		"a page of a list with more than 64 MiB is refused (F-8)":  {`{"id":"` + strings.Repeat("x", 64<<10) + `"}`, 24 << 10, "an answer of more than 64 MiB"},
		"a page of 10 MiB with 3 000 000 values is refused (F-98)": {`{"id":"","all":[{}` + strings.Repeat(",{}", 3000) + `]}`, 1000, "a list of more than 2000000 values"},
		"a page with a row of 2 MiB is refused (F-98)":             {`{"id":"` + strings.Repeat("x", 2<<20) + `"}`, 1, "one row of the list has more than 1024 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/servers": func(w http.ResponseWriter, _ *http.Request) {
				_, err := fmt.Fprint(w, `{"servers":[`, tc.row)
				for n := 1; err == nil && n < tc.rows; n++ {
					_, err = fmt.Fprint(w, ",", tc.row)
				}
				_, _ = fmt.Fprint(w, "]}")
			}})
			type row struct {
				ID  string
				All []struct{ A, B string }
			}
			all, err := List[row](t.Context(), c.session(t), Listing{Call: Call{Service: Compute, Doing: "listing"}, Path: "servers", Field: "servers"})
			switch {
			case tc.want == "":
				if err != nil || len(all) != tc.rows {
					t.Errorf("got %d rows, %v", len(all), err)
				}
			case !fault.Is(err, fault.Transient) || !strings.Contains(err.Error(), tc.want):
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a huge error page is read only up to the limit, and the error does not show the page's text (F-8)", func(t *testing.T) {
		var sent atomic.Int64
		c := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/servers/a": endless(&sent, http.StatusBadGateway, `{"error":"`, huge)})
		err := get(t.Context(), c.session(t), "servers/a")
		if !fault.Is(err, fault.Transient) || sent.Load() > 32<<20 || len(err.Error()) > 200 {
			t.Errorf("got %v after %d MiB", err, sent.Load()>>20)
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int64
	inside := newTestCloud(t, map[string]http.HandlerFunc{"GET /secret": func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = fmt.Fprint(w, `{"access":"inner-word"}`)
	}})
	for _, status := range []int{301, 302, 303, 307, 308} {
		redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL+"/secret", status) }
		t.Run("a sign-in fails when the answer is a redirect with status "+fmt.Sprint(status)+" (F-9)", func(t *testing.T) {
			c := newTestCloud(t, map[string]http.HandlerFunc{"POST /v3/auth/tokens": redirect})
			_, err := c.session(t).Scope(t.Context())
			if e := fault.Of(err); e == nil || e.Code != fault.CodeForeignAnswer || !strings.Contains(e.Message, "answered with a redirect, which drover does not follow") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("a call fails when the answer is a redirect with status "+fmt.Sprint(status)+" (F-9)", func(t *testing.T) {
			c := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/servers/a": redirect})
			if err := get(t.Context(), c.session(t), "servers/a"); fault.Of(err) == nil || fault.Of(err).Code != fault.CodeForeignAnswer {
				t.Errorf("got %v", err)
			}
		})
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the URL that the redirects lead to was asked %d times", n)
	}
}
