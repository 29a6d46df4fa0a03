package main

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

type fakeVersion struct {
	git string
	err error
}

func (f fakeVersion) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: f.git}, f.err
}

func TestWhichVersionsOfTheAPIServerDroverAccepts(t *testing.T) {
	for _, tt := range []struct {
		server fakeVersion
		want   string // part of the error; empty means that the version is accepted
	}{
		{fakeVersion{git: "v1.30.0"}, ""},
		{fakeVersion{git: "v1.37.1-eks-1"}, ""},
		{fakeVersion{git: "v1.29.14"}, "the API server is Kubernetes v1.29.14; drover needs 1.30.0 or newer"},
		{fakeVersion{git: "main"}, `reading the API server's version "main"`},
		{fakeVersion{git: "unknown", err: errors.New("connection refused")}, "asking the API server for its version: connection refused"},
	} {
		t.Run("an API server "+map[bool]string{true: "that reports the version " + tt.server.git, false: "that does not answer"}[tt.server.err == nil]+" is "+map[bool]string{true: "accepted", false: "refused"}[tt.want == ""], func(t *testing.T) {
			err := checkServer(tt.server)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
