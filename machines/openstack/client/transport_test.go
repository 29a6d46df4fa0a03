package client

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterIsParsedAsSecondsAndAsDate(t *testing.T) {
	header := http.Header{}
	header.Set("Date", "Fri, 20 Nov 2026 12:00:00 GMT")
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Second, "Fri, 20 Nov 2026 12:01:00 GMT": time.Minute, "Fri, 20 Nov 2026 11:00:00 GMT": 0, "-5": 0, "soon": 0, "": 0,
	} {
		header.Set("Retry-After", text)
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
