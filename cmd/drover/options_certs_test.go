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
		{"accepts --grpc-self-signed without other flags", func(*options) {}, ""},
		{"refuses a --grpc-client-secret without a namespace", func(o *options) { o.certs.autoscalers = "autoscaler" }, `--grpc-client-secret "" is not the name of a Secret`},
		{"refuses a --grpc-client-secret with an invalid namespace", func(o *options) { o.certs.autoscalers = "A b/autoscaler" }, `--grpc-client-secret "A b" is not the name of a namespace`},
		{"refuses an invalid name of a Secret in --grpc-secret", func(o *options) { o.certs.secret = "Drover!" }, `--grpc-secret "Drover!" is not the name of a Secret`},
		{"refuses drover's own Secret as --grpc-client-secret", func(o *options) { o.certs.autoscalers = "drover/drover-grpc" }, "--grpc-client-secret drover/drover-grpc is drover's own Secret"},
		{"accepts DNS names and IP addresses in --grpc-server-names", func(o *options) { o.certs.names = []string{"drover.example", "10.0.0.1", "fd00::1"} }, ""},
		{"refuses a URL in --grpc-server-names", func(o *options) { o.certs.names = []string{"https://drover"} }, `--grpc-server-names "https://drover" is neither`},
		{"refuses a --grpc-allowed-clients without the name in the certificate that drover makes for the autoscaler", func(o *options) { o.grpcAllowedClients = []string{"me"} }, "--grpc-allowed-clients: the certificate that --grpc-self-signed makes has the name cluster-autoscaler"},
		{"accepts a --grpc-allowed-clients with the name in the certificate that drover makes for the autoscaler", func(o *options) { o.grpcAllowedClients = []string{"me", "cluster-autoscaler"} }, ""},
		{"refuses --grpc-insecure together with --grpc-self-signed", func(o *options) { o.grpcInsecure = true }, "--grpc-insecure cannot be combined"},
	} {
		t.Run("drover "+tt.name, func(t *testing.T) {
			o := defaults()
			o.certs.selfSigned = true
			tt.set(o)
			err := o.validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want something with %q", err, tt.want)
			}
		})
	}
	t.Run("drover's certificate has the DNS names of drover's Service when --grpc-server-names is not set", func(t *testing.T) {
		o := defaults()
		want := []string{"drover.own.svc", "drover.own", "drover.own.svc.example.org"}
		if got := o.certs.serverNames("own", "example.org"); !slices.Equal(got, want) {
			t.Errorf("names %v, want %v", got, want)
		}
	})
}
