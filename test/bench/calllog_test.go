package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cloudCall is one call to the cloud's API, as recorded by a callLog.
type cloudCall struct {
	// name is method and path without version and IDs, such as `POST /servers`.
	name         string
	began, ended time.Time
	status       int
}

// callLog is a reverse proxy in front of all endpoints of a cloud. It records every call. In every answer it replaces
// the cloud's addresses with its own, so that a client that signs in through the proxy makes all its calls through it.
type callLog struct {
	*testing.B
	mu sync.Mutex
	// doors maps each address of the cloud to the address at which the proxy listens for it, each as scheme://host.
	doors map[string]string
	done  []cloudCall
}

func newCallLog(b *testing.B) *callLog { return &callLog{B: b, doors: map[string]string{}} }

// through returns the URL with the proxy's address in place of the cloud's.
func (l *callLog) through(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		l.Fatalf("%q is not the URL of an endpoint: %v", to, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	host := u.Scheme + "://" + u.Host
	if l.doors[host] == "" {
		l.doors[host] = l.open(&url.URL{Scheme: u.Scheme, Host: u.Host})
	}
	return l.doors[host] + strings.TrimPrefix(to, host)
}

// open listens for one address of the cloud until the benchmark ends.
func (l *callLog) open(cloud *url.URL) string {
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(cloud)
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: l.rewrite,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		c := cloudCall{name: r.Method + " " + template(r.URL.Path), began: time.Now()}
		// A real cloud completes a call even if the client's process has ended meanwhile.
		proxy.ServeHTTP(seen, r.WithContext(context.WithoutCancel(r.Context())))
		c.ended, c.status = time.Now(), seen.status
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done = append(l.done, c)
	}))
	l.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

var (
	version    = regexp.MustCompile(`^.*?/v\d[\d.]*(/|$)`)
	identifier = regexp.MustCompile(`[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}`)
)

// template returns the path without the version, everything before the version, and the IDs.
func template(path string) string {
	return identifier.ReplaceAllString("/"+strings.TrimPrefix(version.ReplaceAllString(path, ""), "/"), "{id}")
}

// rewrite replaces the cloud's addresses with the proxy's. For a service catalog it starts a listener for each endpoint in the catalog.
func (l *callLog) rewrite(r *http.Response) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	var signedIn struct {
		Token struct {
			Catalog []struct{ Endpoints []struct{ URL string } }
		}
	}
	if strings.HasSuffix(r.Request.URL.Path, "/auth/tokens") && json.Unmarshal(raw, &signedIn) == nil {
		for _, service := range signedIn.Token.Catalog {
			for _, endpoint := range service.Endpoints {
				l.through(endpoint.URL)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for cloud, own := range l.doors {
		raw = bytes.ReplaceAll(raw, []byte(cloud+"/"), []byte(own+"/"))
		raw = bytes.ReplaceAll(raw, []byte(cloud+`"`), []byte(own+`"`))
		if at := r.Header.Get("Location"); strings.HasPrefix(at, cloud+"/") {
			r.Header.Set("Location", own+strings.TrimPrefix(at, cloud))
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	return nil
}

// cloudCalls are completed calls.
type cloudCalls []cloudCall

// between returns the calls that began between from and to, in the order in which they began.
func (l *callLog) between(from, to time.Time) cloudCalls {
	l.mu.Lock()
	defer l.mu.Unlock()
	some := slices.DeleteFunc(slices.Clone(l.done), func(c cloudCall) bool { return c.began.Before(from) || c.began.After(to) })
	slices.SortFunc(some, func(a, b cloudCall) int { return a.began.Compare(b.began) })
	return some
}

// of returns the calls with these names.
func (c cloudCalls) of(names ...string) cloudCalls {
	return slices.DeleteFunc(slices.Clone(c), func(one cloudCall) bool { return !slices.Contains(names, one.name) })
}

// last returns the end of the last call that succeeded, or the zero time when no call did.
func (c cloudCalls) last() (end time.Time) {
	for _, one := range c {
		if one.status < http.StatusBadRequest && one.ended.After(end) {
			end = one.ended
		}
	}
	return end
}

// idle returns how long no call was in flight between the start of the first call and the end of the last: the sum of
// these times, and the longest of them.
func (c cloudCalls) idle() (sum, longest time.Duration) {
	var busy time.Time
	for _, one := range c {
		if gap := one.began.Sub(busy); !busy.IsZero() && gap > 0 {
			sum, longest = sum+gap, max(longest, gap)
		}
		if one.ended.After(busy) {
			busy = one.ended
		}
	}
	return sum, longest
}

// table returns one line per kind of call, with the number of calls per Machine, for n Machines.
func (c cloudCalls) table(n int) string {
	var names []string
	for _, one := range c {
		names = append(names, one.name+" "+strconv.Itoa(one.status))
	}
	return frequencies(names, n)
}

func TestTheIdleTimeOfTheCloudIsTheTimeWithoutACallInFlight(t *testing.T) {
	at := func(from, to int) cloudCall {
		noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		return cloudCall{began: noon.Add(time.Duration(from) * time.Second), ended: noon.Add(time.Duration(to) * time.Second)}
	}
	for name, tc := range map[string]struct {
		calls        cloudCalls
		sum, longest time.Duration
	}{
		"the idle time is 0 without calls":                                                    {},
		"the idle time is 0 with one call":                                                    {calls: cloudCalls{at(3, 5)}},
		"the idle time is 0 when a call begins at the moment at which the previous call ends": {calls: cloudCalls{at(0, 2), at(2, 4)}},
		"the idle time is the sum of two gaps, and the longer gap is reported as the longest": {calls: cloudCalls{at(0, 1), at(2, 3), at(6, 7)}, sum: 4 * time.Second, longest: 3 * time.Second},
		"a gap between two calls does not count while a third call is in flight":              {calls: cloudCalls{at(0, 10), at(1, 2), at(5, 6), at(11, 12)}, sum: time.Second, longest: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if sum, longest := tc.calls.idle(); sum != tc.sum || longest != tc.longest {
				t.Errorf("got %v, at the longest %v; want %v and %v", sum, longest, tc.sum, tc.longest)
			}
		})
	}
}

func TestCallsAreCountedByPathWithoutAPIVersionAndIDs(t *testing.T) {
	for path, want := range map[string]string{
		"/v2.1/servers":            "/servers",
		"/compute/v2.1/servers":    "/servers",
		"/v2.1":                    "/",
		"/":                        "/",
		"/identity/v3/auth/tokens": "/auth/tokens",
		"/v2.0/ports/2969ae04-a429-4c1b-83e3-2f76fc3a342a":     "/ports/{id}",
		"/v2.1/os-quota-sets/76ec68186bcf492ca7deea22024d8f9c": "/os-quota-sets/{id}",
	} {
		if got := template(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
