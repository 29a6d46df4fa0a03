//go:build cluster

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os/exec"
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
	"github.com/drover-project/drover/test/doccommands"
)

// TestTheCertificateAuthorityThatDroverMadeCanBeReplaced runs two replicas that start at the same time, under drover's own roles.
func TestTheCertificateAuthorityThatDroverMadeCanBeReplaced(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	must(t, deploy.Apply(t.Context(), p.client))
	ports := []string{freePort(t), freePort(t)}
	replicas := []*exec.Cmd{p.selfSigned(ports[0]), p.selfSigned(ports[1])}
	before := p.mounted()
	for _, port := range ports {
		p.until("the autoscaler reaches the replica at "+port, func() bool { return refresh(t, port, before) == nil })
		if err := refresh(t, port, insecure.NewCredentials()); grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("a client without a certificate: %v", err)
		}
	}
	t.Run("after the commands in docs/cluster-autoscaler.md, drover accepts only client certificates of the new authority", func(t *testing.T) {
		p := p.in(t)
		shell := doccommands.NewShell(t, p.kube.Kubeconfig)
		for _, manifest := range []string{"deployment.yaml", "cluster-autoscaler/deployment.yaml"} {
			if out, err := p.kube.Kubectl(t.Context(), "apply", "--server-side", "-f", "../../deploy/"+manifest); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		shell.Run(t, "docs/cluster-autoscaler.md#new-authority")
		// No Deployment controller runs here, so the test itself restarts drover.
		for _, replica := range replicas {
			must(t, replica.Process.Kill())
			_ = replica.Wait()
		}
		p.selfSigned(ports[0])
		p.until("the files that exist now are accepted", func() bool { return refresh(t, ports[0], p.mounted()) == nil })
		if err := refresh(t, ports[0], before); grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("the old files: %v", err)
		}
	})
}

// selfSigned starts a replica that makes its certificates itself, under drover's roles.
func (p *pair) selfSigned(port string) *exec.Cmd {
	p.Helper()
	return p.replicaAs(droverAccount, []string{"system:authenticated"},
		"--grpc-address="+port, "--grpc-secrets=drover-grpc,kube-system/cluster-autoscaler-drover", "--grpc-allowed-clients=cluster-autoscaler")
}

// mounted returns the TLS configuration of an autoscaler that reads its files now.
func (p *pair) mounted() credentials.TransportCredentials {
	p.Helper()
	secret := &corev1.Secret{}
	p.until("the autoscaler's Secret is there", func() bool {
		err := p.client.Get(p.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler-drover"}, secret)
		must(p.T, client.IgnoreNotFound(err))
		return err == nil
	})
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	must(p.T, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	return credentials.NewTLS(&tls.Config{ServerName: "drover.drover.svc", Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12})
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
