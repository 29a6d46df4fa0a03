package bootstrap

import (
	"strings"
	"testing"
)

func TestCheckSkew(t *testing.T) {
	tests := []struct {
		name, kubelet, server, says string
	}{
		{"the same version", "1.37.1", "v1.37.1", ""},
		{"a newer patch", "1.37.9", "v1.37.1", ""},
		{"three minors older", "v1.34.0", "v1.37.1", ""},
		{"the API server of a distribution", "1.36.0", "v1.37.1+k3s1", ""},
		{"four minors older", "1.33.9", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"the seed's manifest on a newer control plane", "1.30.3", "v1.37.1", "spec.versions.kubelet 1.30.3 does not fit the API server's 1.37.1: allowed are 1.34 to 1.37"},
		{"a newer minor", "1.38.0", "v1.37.1", "allowed are 1.34 to 1.37"},
		{"no version", "latest", "v1.37.1", `"latest" is no version`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckSkew(tt.kubelet, tt.server)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error: %v", err)
			}
		})
	}
}
