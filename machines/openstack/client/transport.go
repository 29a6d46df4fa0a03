package client

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

// transport counts, times and limits every request.
type transport struct {
	next    http.RoundTripper
	limiter *limiter
	metrics *metrics
	clock   clock.Clock
}

// RoundTrip sends one request when the limiter of its endpoint allows it.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := serviceOf(req)
	by := callerOf(req)
	turn, err := t.limiter.acquire(req.Context(), endpointKey{s, req.URL.Host}, requestKindOf(req), by)
	if err != nil {
		return nil, err
	}
	start := t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	var refusal *fault.Error
	if errors.As(err, &refusal) {
		// The lease check or observe mode refused the request. It was not sent, so the limiter learns nothing about the
		// endpoint.
		t.limiter.release(turn, result{unsent: true})
		return nil, err
	}
	code, r := "error", result{took: t.clock.Since(start)}
	t.metrics.duration.WithLabelValues(string(s), req.Method).Observe(r.took.Seconds())
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
		r.answered = resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusGatewayTimeout
		r.rest = pauseAfter(resp.StatusCode, resp.Header)
	}
	t.limiter.release(turn, r)
	t.metrics.count(s, req.Method, code, by.Group, t.clock.Now())
	if err == nil {
		err = bound(req, resp)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// impliedPause is how long an endpoint is paused after a 429 response without a Retry-After header.
const impliedPause = time.Second

// mostRest is the maximum pause of an endpoint, even when its response asks for a longer one. The first request after the pause
// shows whether the endpoint accepts requests again.
const mostRest = 5 * time.Minute

// pauseAfter returns how long to pause an endpoint after a response, at most mostRest; 0 when the response asks for no pause.
func pauseAfter(status int, header http.Header) time.Duration {
	wait := min(retryAfter(header), mostRest)
	switch {
	case status == http.StatusTooManyRequests && wait == 0:
		return impliedPause
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == http.StatusRequestEntityTooLarge:
		return wait
	}
	return 0
}

// retryAfter parses the header Retry-After in either form: a number of seconds, or a date. A date is compared with the
// response's own Date, because the clocks may differ. A number beyond an hour counts as an hour, which is longer than any pause.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int(time.Hour/time.Second))) * time.Second
	}
	until, err := http.ParseTime(text)
	now, nowErr := http.ParseTime(header.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}

// uncuredFor is how long drover signs in no more for a kind of request that the cloud has refused with 401 with an old and with a
// new token.
const uncuredFor = 5 * time.Minute

// uncured is the transport of one session. A 401 usually means that the token is no longer valid, so the client library signs in again,
// and repeats the request. But a 401 may also be about the request: the access rules of an application credential do not allow it, or
// one service does not accept this Keystone's tokens. A new token does not change that, and without this transport each such request
// would sign in again. For them uncured returns an error instead of the response, so that no sign-in follows.
type uncured struct {
	next  http.RoundTripper
	clock clock.PassiveClock

	mu      sync.Mutex
	refused map[refusedKind]refusedToken
}

// refusedKind is a kind of request to one service.
type refusedKind struct {
	service Service
	requestKind
}

// refusedToken is the first token with which a kind of request was refused, and when that was.
type refusedToken struct {
	token string
	at    time.Time
}

// RoundTrip sends a request. It returns an error of class Auth when a new token does not prevent a 401.
func (u *uncured) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := u.next.RoundTrip(req)
	if err != nil || serviceOf(req) == Identity {
		return resp, err
	}
	kind := refusedKind{serviceOf(req), requestKindOf(req)}
	if !u.refusedTwice(kind, req.Header.Get("X-Auth-Token"), resp.StatusCode) {
		return resp, nil
	}
	_ = resp.Body.Close()
	return nil, fault.New(fault.Auth, fault.CodeForbidden,
		"%s %s is refused with 401, with a new token as well: check that the access rules of the application credential allow it, and that the %s service accepts tokens of this Keystone (HTTP 401)",
		req.Method, printable(req.URL.Path), kind.service)
}

// refusedTwice records the answer to a request of this kind with a token. It reports whether the request is refused, and was refused with
// another token in the last uncuredFor, too.
func (u *uncured) refusedTwice(kind refusedKind, token string, status int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	maps.DeleteFunc(u.refused, func(of refusedKind, r refusedToken) bool {
		return of == kind && status != http.StatusUnauthorized || now.Sub(r.at) >= uncuredFor
	})
	if status != http.StatusUnauthorized {
		return false
	}
	r, known := u.refused[kind]
	if !known {
		r = refusedToken{token: token, at: now}
		u.refused[kind] = r
	}
	return r.token != token
}
