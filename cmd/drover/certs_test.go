package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/proto"
)

// TestCertificatesThatDroverMakes runs two replicas under drover's own roles, which start at the same time.
func TestCertificatesThatDroverMakes(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	must(t, deploy.Apply(t.Context(), p.client))
	ports := []string{freePort(t), freePort(t)}
	for _, port := range ports {
		p.replicaAs(droverAccount, []string{"system:authenticated"}, "--grpc-insecure=false", "--grpc-address="+port, "--grpc-self-signed", "--grpc-allowed-clients=cluster-autoscaler")
	}
	mounted := &corev1.Secret{}
	p.until("the autoscaler's Secret is there", func() bool {
		err := p.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler-drover"}, mounted)
		must(t, client.IgnoreNotFound(err))
		return err == nil
	})
	pair, err := tls.X509KeyPair(mounted.Data["tls.crt"], mounted.Data["tls.key"])
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(mounted.Data["ca.crt"])
	for _, port := range ports {
		p.until("the autoscaler reaches the replica at "+port, func() bool {
			return refresh(t, port, credentials.NewTLS(&tls.Config{ServerName: "drover.drover.svc", Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12})) == nil
		})
		if err := refresh(t, port, insecure.NewCredentials()); grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("a client without a certificate: %v", err)
		}
	}
}

func refresh(t *testing.T, address string, creds credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	must(t, err)
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = proto.NewCloudProviderClient(conn).Refresh(ctx, &proto.RefreshRequest{})
	return err
}

func TestOptionsOfTheCertificates(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*options)
		want string // part of the message; empty: valid
	}{
		{"no more than the flag", func(*options) {}, ""},
		{"a Secret without a namespace", func(o *options) { o.certs.autoscalers = "autoscaler" }, `--grpc-client-secret "" is not the name of a Secret`},
		{"a namespace that is none", func(o *options) { o.certs.autoscalers = "A b/autoscaler" }, `--grpc-client-secret "A b" is not the name of a namespace`},
		{"a Secret that cannot be", func(o *options) { o.certs.secret = "Drover!" }, `--grpc-secret "Drover!" is not the name of a Secret`},
		{"one Secret for both", func(o *options) { o.certs.autoscalers = "drover/drover-grpc" }, "--grpc-client-secret drover/drover-grpc is drover's own Secret"},
		{"names and addresses", func(o *options) { o.certs.names = []string{"drover.example", "10.0.0.1", "fd00::1"} }, ""},
		{"a name that is none", func(o *options) { o.certs.names = []string{"https://drover"} }, `--grpc-server-names "https://drover" is neither`},
		{"clients without the one that gets a certificate", func(o *options) { o.grpcAllowedClients = []string{"me"} }, "--grpc-allowed-clients: the certificate that --grpc-self-signed makes has the name cluster-autoscaler"},
		{"clients with it", func(o *options) { o.grpcAllowedClients = []string{"me", "cluster-autoscaler"} }, ""},
		{"plaintext too", func(o *options) { o.grpcInsecure = true }, "--grpc-insecure: it excludes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := defaults()
			o.certs.selfSigned = true
			tt.set(o)
			err := o.validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want something with %q", err, tt.want)
			}
		})
	}
	t.Run("the server has the names of its Service", func(t *testing.T) {
		o := defaults()
		want := []string{"drover.own.svc", "drover.own", "drover.own.svc.example.org"}
		if got := o.certs.serverNames("own", "example.org"); !slices.Equal(got, want) {
			t.Errorf("names %v, want %v", got, want)
		}
	})
}
