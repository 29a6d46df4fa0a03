package bootstrap

import (
	"strings"
	"testing"
)

func TestAKubeletMayBeThreeMinorVersionsOlderThanTheAPIServer(t *testing.T) {
	tests := []struct {
		name, kubelet, server, says string
	}{
		{"accepts a kubelet of the API server's version", "1.37.1", "v1.37.1", ""},
		{"accepts a kubelet with a newer patch version than the API server", "1.37.9", "v1.37.1", ""},
		{"accepts a kubelet that is three minor versions older than the API server", "v1.34.0", "v1.37.1", ""},
		{"accepts an API server version with the suffix of a distribution", "1.36.0", "v1.37.1+k3s1", ""},
		{"refuses a kubelet that is four minor versions older than the API server", "1.33.9", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"the error for a kubelet that is too old names both versions and the allowed range", "1.30.3", "v1.37.1", "spec.versions.kubelet 1.30.3 does not fit the API server's 1.37.1: allowed are 1.34 to 1.37"},
		{"refuses a kubelet with a newer minor version than the API server", "1.38.0", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"refuses a kubelet version that is not a version number", "latest", "v1.37.1", `"latest" is not a version`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckSkew(tt.kubelet, tt.server)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("CheckSkew() = %v", err)
			}
		})
	}
}
