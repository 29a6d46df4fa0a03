package client

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestVersionDocumentOfNova(t *testing.T) {
	t.Run("is requested again one minute after a 404, because the 404 may come from a proxy", func(t *testing.T) {
		asked := 0
		cloud := newTestCloud(t, map[string]http.HandlerFunc{"GET /v2.1/": func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 1 {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(`{"version":{"version":"2.93"}}`))
		}})
		now := clocktesting.NewFakeClock(time.Now())
		s := newTestSession(t, Options{Configured: cloud.URL + "/v3", Clock: now}, cloud.URL+"/v3")
		create := func() error {
			return s.Do(t.Context(), Call{Service: Compute, Doing: "creating", Version: VersionVolumeType}, func(context.Context, *gophercloud.ServiceClient) error { return nil })
		}
		for range 2 {
			if err := create(); err == nil || asked != 1 {
				t.Fatalf("got %v after %d questions, want an error after one", err, asked)
			}
		}
		now.Step(time.Minute)
		if err := create(); err != nil || asked != 2 {
			t.Errorf("got %v after %d questions, want success after two", err, asked)
		}
	})
}

func TestRequestForANewServerAsksForTheMicroversionOfItsFeatures(t *testing.T) {
	for name, tc := range map[string]struct {
		features CreateFeatures
		want     string
	}{
		"asks for no microversion when the request uses no feature that needs one":                         {CreateFeatures{}, ""},
		"asks for microversion 2.52 when the request has Nova tags":                                        {CreateFeatures{Tags: true}, "2.52"},
		"asks for microversion 2.67 when the request has a volume type":                                    {CreateFeatures{Tags: true, VolumeType: true}, "2.67"},
		"asks for the spec's computeAPIVersion when no feature of the request needs a higher microversion": {CreateFeatures{Raised: "2.79"}, "2.79"},
		"asks for microversion 2.67 for a volume type when the spec's computeAPIVersion is lower":          {CreateFeatures{Raised: "2.9", VolumeType: true}, "2.67"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CreateVersion(tc.features).wanted; got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMicroversionOfACallDependsOnThoseThatTheCloudSupports(t *testing.T) {
	for name, tc := range map[string]struct {
		version Version
		newest  string
		want    string
		fails   bool
	}{
		"is the wanted microversion when the cloud supports it":                                                        {VersionFlavors, "2.93", "2.61", false},
		"is the lowest acceptable microversion when the cloud does not support the wanted one":                         {VersionServerGroups, "2.60", "2.15", false},
		"is omitted when Nova's base version 2.1 is acceptable and the cloud does not support the wanted microversion": {VersionFlavors, "2.1", "", false},
		"cannot be chosen when the cloud does not support the lowest acceptable microversion":                          {VersionTags, "2.51", "", true},
		"cannot be chosen when the cloud does not support the spec's computeAPIVersion":                                {CreateVersion(CreateFeatures{Raised: "2.99"}), "2.93", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.version.settle(tc.newest)
			if got != tc.want || (err != nil) != tc.fails {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
}
