package main

import (
	"slices"
	"strings"
	"testing"
)

func TestDroverValidatesTheFlagsForTheCertificatesThatItMakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*options)
		want string // part of the message; empty means that the flags are valid
	}{
		{"accepts --grpc-secrets without other flags", func(*options) {}, ""},
		{"refuses a --grpc-secrets with one name", func(o *options) { o.secrets = o.secrets[:1] }, "--grpc-secrets drover-grpc: name two Secrets"},
		{"refuses the autoscaler's Secret without a namespace", func(o *options) { o.secrets[1] = "autoscaler" }, `--grpc-secrets: "" is not the name of a Secret`},
		{"refuses the autoscaler's Secret with an invalid namespace", func(o *options) { o.secrets[1] = "A b/autoscaler" }, `--grpc-secrets "A b" is not the name of a namespace`},
		{"refuses an invalid name of drover's own Secret", func(o *options) { o.secrets[0] = "Drover!" }, `--grpc-secrets: "Drover!" is not the name of a Secret`},
		{"refuses drover's own Secret as the autoscaler's", func(o *options) { o.secrets[1] = "drover/drover-grpc" }, "--grpc-secrets: drover/drover-grpc is drover's own Secret"},
		{"refuses a --grpc-allowed-clients without the name in the certificate that drover makes for the autoscaler", func(o *options) { o.allowedClients = []string{"me"} }, "--grpc-allowed-clients: the certificate that drover makes for the autoscaler has the name cluster-autoscaler"},
		{"accepts a --grpc-allowed-clients with the name in the certificate that drover makes for the autoscaler", func(o *options) { o.allowedClients = []string{"me", "cluster-autoscaler"} }, ""},
		{"refuses the feature grpc-insecure together with --grpc-secrets", func(o *options) { o.features = []string{grpcInsecure} }, "grpc-insecure cannot be combined"},
	} {
		t.Run("drover "+tt.name, func(t *testing.T) {
			o := defaults()
			o.secrets = []string{"drover-grpc", "kube-system/cluster-autoscaler-drover"}
			tt.set(o)
			err := o.validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want something with %q", err, tt.want)
			}
		})
	}
	t.Run("drover's certificate has the DNS names of drover's Service", func(t *testing.T) {
		o := defaults()
		o.namespace, o.nodes.clusterDomain = "own", "example.org"
		want := []string{"drover.own.svc", "drover.own", "drover.own.svc.example.org"}
		if got := o.certificateNames(); !slices.Equal(got, want) {
			t.Errorf("names %v, want %v", got, want)
		}
	})
}
