package client

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// passing is a RoundTripper that answers every request with 200.
type passing struct{}

func (passing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestReadOnlyTransportSendsOnlyReadsAndSignIns(t *testing.T) {
	for call, passes := range map[string]bool{
		"GET /v2.1/servers/detail": true, "HEAD /v3": true, "POST /identity/v3/auth/tokens": true,
		"POST /v2.1/servers": false, "POST /v2.1/servers/x/action": false, "PUT /v2.0/ports/x": false, "DELETE /v2.1/servers/x": false, "PATCH /v3/x": false,
	} {
		name := "refuses " + call
		if passes {
			name = "sends " + call
		}
		t.Run(name, func(t *testing.T) {
			var method, path string
			for i, c := range call {
				if c == ' ' {
					method, path = call[:i], call[i+1:]
				}
			}
			resp, err := readOnly{passing{}}.RoundTrip(httptest.NewRequest(method, "http://cloud"+path, http.NoBody))
			if err == nil {
				_ = resp.Body.Close()
			}
			if (err == nil) != passes {
				t.Errorf("passes: %v, want %v", err == nil, passes)
			}
		})
	}
}
