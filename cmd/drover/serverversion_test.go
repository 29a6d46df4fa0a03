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
		name   string
		server fakeVersion
		want   string // part of the error; empty means that the version is accepted
	}{
		{"that reports the version v1.30.0 is accepted", fakeVersion{git: "v1.30.0"}, ""},
		{"that reports the version v1.37.1-eks-1 is accepted", fakeVersion{git: "v1.37.1-eks-1"}, ""},
		{"that reports the version v1.29.14 is refused", fakeVersion{git: "v1.29.14"}, "the API server is Kubernetes v1.29.14; drover needs 1.30.0 or newer"},
		{"that reports the version main is refused", fakeVersion{git: "main"}, `reading the API server's version "main"`},
		{"that does not answer is refused", fakeVersion{git: "unknown", err: errors.New("connection refused")}, "asking the API server for its version: connection refused"},
	} {
		t.Run("an API server "+tt.name, func(t *testing.T) {
			err := checkServer(tt.server)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
