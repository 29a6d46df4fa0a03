package bootstrap

import (
	"strings"
	"testing"
)

func TestCheckSkewAllowsThreeMinorVersions(t *testing.T) {
	tests := []struct {
		name, kubelet, server, says string
	}{
		{"accepts the same version", "1.37.1", "v1.37.1", ""},
		{"accepts a newer patch", "1.37.9", "v1.37.1", ""},
		{"accepts three minor versions older", "v1.34.0", "v1.37.1", ""},
		{"accepts the API server version of a distribution", "1.36.0", "v1.37.1+k3s1", ""},
		{"refuses four minor versions older", "1.33.9", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"refuses the older kubelet on a newer control plane", "1.30.3", "v1.37.1", "spec.versions.kubelet 1.30.3 does not fit the API server's 1.37.1: allowed are 1.34 to 1.37"},
		{"refuses a newer minor version", "1.38.0", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"refuses text that is not a version", "latest", "v1.37.1", `"latest" is not a version`},
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
