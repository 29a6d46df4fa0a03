package client

import (
	"net/http"
	"testing"
)

func TestEndpointLimiterDistinguishesRequestsByTheHTTPVerbAndTheCollectionInTheURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://h/compute/v2.1/servers/detail?limit=1":                              "servers",
		"http://h/compute/v2.1/servers/11111111-0000-0000-0000-000000000001/action": "servers",
		"http://h/v2.1/0123456789abcdef0123456789abcdef/servers":                    "servers",
		"http://h/network/v2.0/ports":                                               "ports",
		"http://h:9696/v2.0/floatingips/1":                                          "floatingips",
		"http://h/identity/v3/auth/tokens":                                          "auth",
		"http://h/volume/v3/0123456789abcdef0123456789abcdef/volumes/1":             "volumes",
		"http://h/compute/v2.1/":                                                    "v2.1",
	} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := requestKindOf(req); got.collection != want || got.verb != "GET" {
			t.Errorf("%s: got %v, want %s", url, got, want)
		}
	}
}
