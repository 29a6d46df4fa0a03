package autoscale_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/autoscale"
)

var (
	own         = types.NamespacedName{Namespace: "drover", Name: "drover-grpc"}
	autoscalers = types.NamespacedName{Namespace: "kube-system", Name: "autoscaler"}
)

// files returns the TLS configuration of a client that reads its files from a Secret now.
func files(t *testing.T, c client.Client, from types.NamespacedName) credentials.TransportCredentials {
	t.Helper()
	s := &corev1.Secret{}
	if err := c.Get(t.Context(), from, s); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Data["ca.crt"])
	return credentials.NewTLS(&tls.Config{ServerName: "drover.drover.svc", Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12})
}

// serial connects to the server, makes a call, and returns the serial number of the certificate that was served.
func serial(t *testing.T, address net.Addr, creds credentials.TransportCredentials) (*big.Int, error) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address.String(), grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var server peer.Peer
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&server)); err != nil {
		return nil, err
	}
	return server.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].SerialNumber, nil
}

// run calls start in a goroutine, and stops it when the test ends.
func run(t *testing.T, start func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return so(), nil }); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestConnectionsWithTheCertificatesThatDroverMakes(t *testing.T) {
	c := fake.NewFakeClient()
	// The certificates must be valid now, because TLS uses the real time: they are created 300 days before now.
	clock := clocktesting.NewFakeClock(time.Now().AddDate(0, 0, -300))
	keeper := autoscale.NewKeeper(autoscale.KeeperOptions{Client: c, Own: own, Autoscaler: autoscalers, Names: []string{"drover.drover.svc"}, Clock: clock})
	server, err := autoscale.New(autoscale.Options{
		Address: "127.0.0.1:0", SelfSigned: true, Keeper: keeper, AllowedClients: []string{autoscale.ClientName},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, server.Start)
	if server.Addr() != nil {
		t.Fatal("the port is open before there is a certificate")
	}
	run(t, keeper.Start)
	until(t, "the server listens", func() bool { return server.Addr() != nil })
	until(t, "the autoscaler's Secret exists", func() bool { return c.Get(t.Context(), autoscalers, &corev1.Secret{}) == nil })

	before := files(t, c, autoscalers)
	first, err := serial(t, server.Addr(), before)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a renewed certificate is served without a restart, and accepted by an autoscaler that started before the renewal", func(t *testing.T) {
		until(t, "the keeper waits", clock.HasWaiters)
		clock.SetTime(time.Now())
		until(t, "another certificate is served", func() bool {
			now, err := serial(t, server.Addr(), before)
			if err != nil {
				t.Fatal(err)
			}
			return now.Cmp(first) != 0
		})
	})
	t.Run("a client that presents drover's server certificate as a client certificate is refused", func(t *testing.T) {
		if _, err := serial(t, server.Addr(), files(t, c, own)); status.Code(err) != codes.Unavailable {
			t.Errorf("the answer is %v", err)
		}
	})
	t.Run("after drover's own Secret was deleted, only a client that has read the new certificates can connect", func(t *testing.T) {
		if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: objectMeta(own)}); err != nil {
			t.Fatal(err)
		}
		until(t, "the keeper waits", clock.HasWaiters)
		clock.Step(time.Minute)
		until(t, "the old files are refused", func() bool {
			_, err := serial(t, server.Addr(), before)
			return status.Code(err) == codes.Unavailable
		})
		until(t, "the new files are let in", func() bool {
			_, err := serial(t, server.Addr(), files(t, c, autoscalers))
			return err == nil
		})
	})
}
