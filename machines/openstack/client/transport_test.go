package client

import (
	"net/http"
	"testing"
	"time"
)

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
