package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/fault"
)

func TestServiceEndpointsAreChosenByRegionAndInterface(t *testing.T) {
	var tok token
	if err := json.Unmarshal([]byte(`{"project":{"id":"p"},"catalog":[
		{"type":"compute","endpoints":[{"interface":"public","region":"a","url":"http://a/compute/v2.1"},{"interface":"public","region":"b","url":"http://b/compute/v2.1"},{"interface":"internal","region":"a","url":"http://int/v2.1/"}]},
		{"type":"network","endpoints":[{"interface":"public","region":"a","url":"http://a:9696"},{"interface":"public","region":"b","url":"http://b/network/v2.0/"}]},
		{"type":"image","endpoints":[{"interface":"public","region":"a","url":"http://a/image"}]}]}`), &tok); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		c                       Credentials
		compute, network, image string
		fails                   bool
	}{
		"returns the public endpoints of region a":                                  {Credentials{Region: "a"}, "http://a/compute/v2.1/", "http://a:9696/v2.0/", "http://a/image/v2/", false},
		"returns the public endpoints of region b":                                  {Credentials{Region: "b"}, "http://b/compute/v2.1/", "http://b/network/v2.0/", "", false},
		"returns the internal endpoints when the credentials select that interface": {Credentials{Region: "a", Interfaces: []string{"internal"}}, "http://int/v2.1/", "", "", false},
		"returns the first of the interfaces that the service catalog has (F-120)":  {Credentials{Region: "a", Interfaces: []string{"internal", "public"}}, "http://int/v2.1/", "http://a:9696/v2.0/", "http://a/image/v2/", false},
		"refuses an interface that the compute service does not have (F-120)":       {Credentials{Region: "a", Interfaces: []string{"admin"}}, "", "", "", true},
		"returns the URL, region and interface of a service that has its own (F-120)": {Credentials{Region: "nowhere", Places: map[Service]Place{
			Compute: {Region: "b"}, Network: {URL: "http://own"}, Image: {Region: "a", Interfaces: []string{"public"}},
		}}, "http://b/compute/v2.1/", "http://own/v2.0/", "http://a/image/v2/", false},
		"refuses a region that the service catalog does not have":                {Credentials{Region: "c"}, "", "", "", true},
		"refuses a service catalog with several regions when no region is given": {Credentials{}, "", "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			scope, err := chooseEndpoints(&tok, &tc.c)
			if tc.fails {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || scope.endpoints[Compute] != tc.compute || scope.endpoints[Network] != tc.network || scope.endpoints[Image] != tc.image {
				t.Fatalf("got %+v, %v", scope, err)
			}
		})
	}
}

func TestServiceURLGetsAVersionAndATrailingSlash(t *testing.T) {
	for _, row := range []struct{ address, want string }{
		{"https://nova.example", "https://nova.example/v2.1/"},
		{"https://cloud.example/compute/", "https://cloud.example/compute/v2.1/"},
		{"https://nova.example/v2.1", "https://nova.example/v2.1/"},
		{"https://nova.example/v2/8a1f", "https://nova.example/v2/8a1f/"},
		{"https://nova.example/v2.1/8a1f/", "https://nova.example/v2.1/8a1f/"},
	} {
		name := "the compute URL " + row.address + " becomes " + row.want + " (F-27)"
		if row.address == row.want {
			name = "the compute URL " + row.address + ", which has both, is not changed (F-27)"
		}
		t.Run(name, func(t *testing.T) {
			if got := serviceURL(Compute, row.address); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestTimesOfTheCloudAreParsedWithAndWithoutATimeZone(t *testing.T) {
	want := time.Date(2026, 11, 20, 7, 40, 12, 0, time.UTC)
	for _, text := range []string{`"2026-11-20T07:40:12.000000Z"`, `"2026-11-20T07:40:12"`} {
		var s stamp
		if err := json.Unmarshal([]byte(text), &s); err != nil || !s.Equal(want) {
			t.Errorf("%s is %v, %v", text, s, err)
		}
	}
	if err := new(stamp).UnmarshalJSON([]byte(`"soon"`)); err == nil {
		t.Error("soon is a time")
	}
}
