package client

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

func TestMetricsOfURLsThatAreNotValidUTF8(t *testing.T) {
	l := newLimiter(clock.RealClock{}, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(l)
	for _, text := range []string{"http://%ff.invalid/%ff", "http://%fe.invalid/%fe"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		l.line(endpointKey{Compute, u.Host}, requestKindOf(&http.Request{Method: http.MethodGet, URL: u}))
	}
	t.Run("a scrape succeeds when host and path of a request's URL are not valid UTF-8 (F-8)", func(t *testing.T) {
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	})
}
