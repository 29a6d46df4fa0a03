package client

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// answerAfter answers each request with 200 after a time.
type answerAfter time.Duration

// RoundTrip implements http.RoundTripper.
func (d answerAfter) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(d))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
}

func TestTheTimeOfAnswersMovesTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		raised bool
	}{
		"an answer after a second raises the limit above 16 (CAPI-17)":            {time.Second, true},
		"an answer after six seconds does not raise the limit above 16 (CAPI-17)": {6 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := newMetrics(nil)
				if err != nil {
					t.Fatal(err)
				}
				l := newLimiter(clock.RealClock{}, nil)
				sender := &transport{next: answerAfter(c.after), limiter: l, metrics: m, clock: clock.RealClock{}}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://nova.example/servers", nil)
				if err != nil {
					t.Fatal(err)
				}
				of := l.line(endpointKey{serviceOf(request), "nova.example"}, requestKindOf(request))
				of.inFlight = usualConcurrent - 1
				response, err := sender.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if raised := of.limit > usualConcurrent; raised != c.raised {
					t.Errorf("the limit is %v", of.limit)
				}
			})
		})
	}
}

func TestRetryAfterIsParsedAsSecondsAndAsDate(t *testing.T) {
	header := http.Header{}
	header.Set("Date", "Fri, 20 Nov 2026 12:00:00 GMT")
	for name, tt := range map[string]struct {
		text string
		want time.Duration
	}{
		"a number is the wait in seconds": {"30", 30 * time.Second},
		"a date yields the wait from the time in the response's Date header until that date": {"Fri, 20 Nov 2026 12:01:00 GMT", time.Minute},
		"a date before the response's Date header yields no wait":                            {"Fri, 20 Nov 2026 11:00:00 GMT", 0},
		"a number too large for a time.Duration is an hour (F-69)":                           {"10000000000", time.Hour},
		"a number too large for an integer is an hour (F-69)":                                {"99999999999999999999", time.Hour},
		"a negative number yields no wait":                                                   {"-5", 0},
		"a text that is neither a number nor a date yields no wait":                          {"soon", 0},
		"an empty header yields no wait":                                                     {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			header.Set("Retry-After", tt.text)
			if got := retryAfter(header); got != tt.want {
				t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
			}
		})
	}
}
