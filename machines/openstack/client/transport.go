package client

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

// transport counts, times and limits every request.
type transport struct {
	next    http.RoundTripper
	limits  *limits
	metrics *metrics
	clock   clock.Clock
}

// RoundTrip sends one request when the limiter of its endpoint allows it.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := serviceOf(req)
	endpoint, kind, by := t.limits.endpoint(s, req.URL.Host), requestKindOf(req), callerOf(req)
	turn, err := endpoint.acquire(req.Context(), kind, by)
	if err != nil {
		return nil, err
	}
	start := t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	var refusal *fault.Error
	if errors.As(err, &refusal) {
		// The lease check or the read-only mode refused the request. It was not sent, so the limiter learns nothing about the
		// endpoint.
		endpoint.release(kind, turn, result{unsent: true})
		return nil, err
	}
	t.metrics.duration.WithLabelValues(string(s), req.Method).Observe(t.clock.Since(start).Seconds())
	code, r := "error", result{}
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
		r.answered = resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusGatewayTimeout
		r.rest = pauseAfter(resp.StatusCode, resp.Header)
	}
	endpoint.release(kind, turn, r)
	t.metrics.count(s, req.Method, code, by.group, t.clock.Now())
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
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return wait
	}
	return 0
}

// retryAfter parses the header Retry-After in either form: a number of seconds, or a date. A date is compared with the
// response's own Date, because the clocks may differ.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	until, err := http.ParseTime(text)
	now, nowErr := http.ParseTime(header.Get("Date"))
	if err != nil || nowErr != nil {
		return 0
	}
	return max(until.Sub(now), 0)
}
