package autoscale

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/proto"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// files writes a certificate for name with its key, and the authority's certificate. It returns the paths.
func (a *authority) files(dir, name string) (cert, key, ca string) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name + ".example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key, ca = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"), filepath.Join(dir, "ca.crt")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.Raw}, key: {Type: "PRIVATE KEY", Bytes: raw}, ca: {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key, ca
}

// credentials returns the credentials of a client with the given name, which trusts the given authority.
func (a *authority) credentials(name string, trust *authority) credentials.TransportCredentials {
	a.t.Helper()
	cert, key, _ := a.files(a.t.TempDir(), name)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return trust.trusted(pair)
}

// trusted returns the credentials of a client that trusts the authority and presents the given certificates.
func (a *authority) trusted(show ...tls.Certificate) credentials.TransportCredentials {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return credentials.NewTLS(&tls.Config{Certificates: show, RootCAs: pool, MinVersion: tls.VersionTLS12})
}

func call(t *testing.T, address net.Addr, creds credentials.TransportCredentials) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := proto.NewCloudProviderClient(dial(t, address, creds)).Refresh(ctx, &proto.RefreshRequest{})
	return err
}

func TestOnlyAllowedClientsMayCallTheGRPCServer(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	cert, key, ca := ours.files(dir, "drover")
	groups := &stub{}
	address, _ := serving(t, Options{Groups: groups, Cert: cert, Key: key, ClientCA: ca, AllowedClients: []string{"autoscaler", "other.example"}})
	for _, tc := range []struct {
		name  string
		creds credentials.TransportCredentials
		want  codes.Code
	}{
		{"a client with an allowed common name may call (CA-C07)", ours.credentials("autoscaler", ours), codes.OK},
		{"a client with an allowed DNS name may call", ours.credentials("other", ours), codes.OK},
		{"a client with a valid certificate for another name is refused in the handshake (CA-C07, F-98)", ours.credentials("stranger", ours), codes.Unavailable},
		{"a client whose certificate has an allowed name but is from another authority is refused", theirs.credentials("autoscaler", ours), codes.Unavailable},
		{"a client without a certificate is refused", ours.trusted(), codes.Unavailable},
		{"a client without TLS is refused", nil, codes.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := call(t, address, tc.creds); status.Code(err) != tc.want {
				t.Errorf("the answer is %v, want %s", err, tc.want)
			}
		})
	}
	t.Run("package nodegroup is informed of the connections of allowed clients only", func(t *testing.T) {
		if got := groups.connected(); got != 2 {
			t.Errorf("%d clients connected, two may", got)
		}
	})
}

func TestPackageNodegroupIsNotInformedOfConnectionsForHealthChecks(t *testing.T) {
	groups := &stub{}
	address, _ := serving(t, Options{Groups: groups, Insecure: true})
	_, err := healthpb.NewHealthClient(dial(t, address, nil)).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || groups.connected() != 0 {
		t.Errorf("%d clients connected, want none; error %v", groups.connected(), err)
	}
}

func TestPackageNodegroupIsInformedOfEachNewGRPCConnection(t *testing.T) {
	groups := &stub{connecting: make(chan struct{})}
	address, _ := serving(t, Options{Groups: groups, Insecure: true})
	client := proto.NewCloudProviderClient(dial(t, address, nil))
	answered := make(chan error, 3)
	for range cap(answered) {
		go func() {
			_, err := client.NodeGroupTargetSize(t.Context(), &proto.NodeGroupTargetSizeRequest{Id: "first"})
			answered <- err
		}()
	}
	t.Run("package nodegroup is informed of a connection before the connection's first call is carried out (CA-C36)", func(t *testing.T) {
		if !eventually(t, 5*time.Second, func() bool { return groups.connected() == 1 }) || groups.lastID() != "" {
			t.Errorf("%d connections, the last call was about %q", groups.connected(), groups.lastID())
		}
		close(groups.connecting)
		for range cap(answered) {
			if err := <-answered; err != nil || groups.lastID() != "first" {
				t.Errorf("the call was about %q, error %v", groups.lastID(), err)
			}
		}
	})
	t.Run("package nodegroup is informed only once of a connection on which a client makes several calls", func(t *testing.T) {
		if _, err := client.Refresh(t.Context(), &proto.RefreshRequest{}); err != nil || groups.connected() != 1 {
			t.Errorf("%d connections, error %v", groups.connected(), err)
		}
	})
}

func TestTheGRPCServerReadsChangedCertificateFilesAgain(t *testing.T) {
	t.Run("the new certificate is served and the new authority trusted without a restart (CA-C07)", func(t *testing.T) {
		before, after := newAuthority(t), newAuthority(t)
		dir := t.TempDir()
		cert, key, ca := before.files(dir, "drover")
		now := clocktesting.NewFakeClock(time.Now())
		address, _ := serving(t, Options{Groups: &stub{}, Cert: cert, Key: key, ClientCA: ca, Clock: now})
		if err := call(t, address, before.credentials("autoscaler", before)); err != nil {
			t.Fatal(err)
		}
		after.files(dir, "drover")
		served := func() bool { return call(t, address, after.credentials("autoscaler", after)) == nil }
		if served() {
			t.Error("the new certificate is served before the files were read again")
		}
		if !eventually(t, 5*time.Second, now.HasWaiters) {
			t.Fatal("the files are not read again")
		}
		now.Step(certificateEvery)
		if !eventually(t, 5*time.Second, served) {
			t.Fatal("CA-C07 the new certificate is not served within 10 s (F-51)")
		}
		if err := call(t, address, before.credentials("autoscaler", before)); err == nil {
			t.Error("CA-C07 the old authority is still trusted")
		}
	})
}

func TestTheOldCertificateIsServedUntilTheKeyOfTheNewCertificateIsWritten(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	certFile, keyFile, authority := a.files(dir, "drover")
	f, err := newFiles(Options{Cert: certFile, Key: keyFile, ClientCA: authority, Clock: clocktesting.NewFakeClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	before := f.current.Load()
	old, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	a.files(dir, "drover")
	renewed, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name           string
		key            []byte
		changed, fails bool
	}{
		{"when the key file has the old key, reading the files returns an error and the old certificate is served", old, false, true},
		{"when the key file still has the old key, the next read returns no error and the old certificate is served", old, false, false},
		{"the new certificate is served once the key file has the new key", renewed, true, false},
	} {
		if err := os.WriteFile(keyFile, tc.key, 0o600); err != nil {
			t.Fatal(err)
		}
		changed, err := f.reread()
		if now := f.current.Load(); changed != tc.changed || (err != nil) != tc.fails || (now != before) != tc.changed {
			t.Errorf("%s: changed %v, error %v", tc.name, changed, err)
		}
	}
}

func TestTheGRPCServerOpensNoInotifyInstance(t *testing.T) {
	t.Run("while the server reads certificates from files, none of its open files is an inotify instance (F-51)", func(t *testing.T) {
		cert, key, ca := newAuthority(t).files(t.TempDir(), "drover")
		serving(t, Options{Groups: &stub{}, Cert: cert, Key: key, ClientCA: ca})
		files, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if to, _ := os.Readlink(file); strings.Contains(to, "inotify") {
				t.Errorf("%s is %s", file, to)
			}
		}
	})
}

func TestInvalidOptionsOfTheGRPCServerAreRefused(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := newAuthority(t).files(dir, "drover")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		options Options
		want    string
	}{
		{"neither certificates nor grpc-insecure", Options{}, "--grpc-cert-dir"},
		{"a certificate file but neither a key file nor a CA file", Options{Cert: cert}, "--grpc-cert-dir"},
		{"plaintext on a port that is open on all interfaces", Options{Insecure: true, Address: ":8086"}, "--features=grpc-insecure"},
		{"plaintext on an address that other machines can reach", Options{Insecure: true, Address: "192.0.2.1:8086"}, "192.0.2.1:8086"},
		{"both plaintext and certificates", Options{Insecure: true, Cert: cert, Key: key, ClientCA: ca}, "cannot be combined"},
		{"a certificate file that does not exist", Options{Cert: "/nowhere", Key: key, ClientCA: ca}, "/nowhere"},
		{"a CA file that does not exist", Options{Cert: cert, Key: key, ClientCA: "/nowhere"}, "/nowhere"},
		{"a CA file that contains no certificate", Options{Cert: cert, Key: key, ClientCA: empty}, "holds no certificate"},
		{"both self-signed certificates and certificates in files", Options{SelfSigned: true, Cert: cert}, "--grpc-secrets cannot be combined"},
		{"both self-signed certificates and plaintext", Options{SelfSigned: true, Insecure: true}, "--features=grpc-insecure cannot be combined"},
		{"certificates but without a TCP port", Options{Address: "unix:///run/drover/s", Cert: cert, Key: key, ClientCA: ca}, "a unix socket has no TLS"},
		{"names of allowed clients but without a TCP port", Options{Address: "unix:///run/drover/s", AllowedClients: []string{"autoscaler"}}, "a unix socket has no TLS"},
		{"a unix socket and an additional TCP port that has no certificates", Options{Address: "unix:///run/drover/s,:8086"}, "set --grpc-cert-dir or --grpc-secrets"},
		{"a unix socket and an additional plaintext TCP port that is open on all interfaces", Options{Address: "unix:///run/drover/s,:8086", Insecure: true}, ":8086 can be reached"},
	} {
		t.Run("a gRPC server with "+tc.name+" is refused", func(t *testing.T) {
			if _, err := New(tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, it does not name %q", err, tc.want)
			}
		})
	}
	for _, address := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "unix:///run/drover.sock", "unix:///run/drover.sock,127.0.0.1:1"} {
		if _, err := New(Options{Insecure: true, Address: address}); err != nil {
			t.Errorf("plaintext on %s: %v", address, err)
		}
	}
	if _, err := New(Options{Address: "unix:///run/drover.sock"}); err != nil {
		t.Errorf("a socket needs no other flag: %v", err)
	}
}

func TestTheGRPCServerDoesNotStartOnAPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s, err := New(Options{Groups: &stub{}, Insecure: true, Address: taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "--grpc-address") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the error is %v", err)
	}
}

func TestTheGRPCServerOpensItsPortOnlyWhenItIsReady(t *testing.T) {
	start := func(t *testing.T, ctx context.Context, ready chan struct{}) (*Server, chan error) {
		t.Helper()
		s, err := New(Options{Groups: &stub{}, Insecure: true, Address: "127.0.0.1:0", Ready: ready})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Start(ctx) }()
		return s, ended
	}
	t.Run("a gRPC server that is stopped before it is ready never listens (CA-C01)", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s, ended := start(t, ctx, make(chan struct{}))
		if err := <-ended; err != nil || s.Addr() != nil {
			t.Errorf("CA-C01 it listened on %v, error %v", s.Addr(), err)
		}
	})
	t.Run("a gRPC server listens on its port as soon as it is ready (CA-C01)", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ready := make(chan struct{})
		s, ended := start(t, ctx, ready)
		// The channel has no buffer, so this send succeeds only while the server receives from the channel.
		select {
		case ready <- struct{}{}:
		case <-time.After(5 * time.Second):
			t.Fatal("CA-C01 it does not wait")
		}
		if !listens(t, s, 5*time.Second) {
			t.Error("it does not listen")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTheGRPCServerFinishesRunningCallsBeforeItStops(t *testing.T) {
	t.Run("a stopping gRPC server accepts no new connection, and stops after the running call was answered (CA-C04)", func(t *testing.T) {
		s := &stub{held: make(chan struct{}), started: make(chan struct{})}
		address, stop := serving(t, Options{Groups: s, Insecure: true})
		c := proto.NewCloudProviderClient(dial(t, address, nil))
		answered := make(chan error, 1)
		go func() {
			_, err := c.NodeGroupIncreaseSize(context.Background(), &proto.NodeGroupIncreaseSizeRequest{Id: "g", Delta: 1})
			answered <- err
		}()
		<-s.started
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		stopping := eventually(t, 5*time.Second, func() bool {
			conn, err := net.Dial(address.Network(), address.String())
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		})
		if !stopping {
			t.Error("CA-C04 a server that stops takes new connections")
		}
		if len(stopped) != 0 || len(answered) != 0 {
			t.Error("CA-C04 it has not waited for the call")
		}
		close(s.held)
		if err := <-answered; err != nil {
			t.Errorf("CA-C04 the call answers %v", err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestAHealthCheckOfTheGRPCServerReturnsServing(t *testing.T) {
	address, _ := serving(t, Options{Groups: &stub{}, Insecure: true, Reflection: true})
	conn := dial(t, address, nil)
	for _, service := range []string{"", proto.CloudProvider_ServiceDesc.ServiceName} {
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("the health of %q is %v, error %v", service, got, err)
		}
	}
}

func TestAClientThatAnotherReplicaMayServeLosesItsConnection(t *testing.T) {
	groups := &stub{err: &model.Error{Kind: model.Unavailable}}
	address, _ := serving(t, Options{Groups: groups, Insecure: true})
	refresh := func(conn *grpc.ClientConn) {
		t.Helper()
		if _, err := proto.NewCloudProviderClient(conn).Refresh(t.Context(), &proto.RefreshRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("Refresh returned %v", err)
		}
	}
	trusting, untrusting := dial(t, address, nil), dial(t, address, nil)
	refresh(trusting)
	groups.distrust(errors.New("the API server is away"))
	t.Run("the connection is closed after a Refresh that was refused because the groups cannot be trusted (CA-C06)", func(t *testing.T) {
		refresh(untrusting)
		if !eventually(t, 10*time.Second, func() bool { return untrusting.GetState() != connectivity.Ready }) {
			t.Error("the connection is open")
		}
	})
	t.Run("the connection stays open after a Refresh that failed while the groups can be trusted", func(t *testing.T) {
		if got := trusting.GetState(); got != connectivity.Ready {
			t.Errorf("the connection is %v", got)
		}
	})
	t.Run("the next call of the client is answered, on a new connection", func(t *testing.T) {
		before := groups.connected()
		refresh(untrusting)
		if got := groups.connected() - before; got != 1 {
			t.Errorf("%d new connections", got)
		}
	})
}

func TestTheGRPCServerIsReadyOnlyWhileTheGroupsCanBeTrusted(t *testing.T) {
	groups, ready := &stub{}, make(chan struct{})
	s, err := New(Options{Groups: groups, Address: "127.0.0.1:0", Insecure: true, Ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	t.Run("the server is not ready before it listens", func(t *testing.T) {
		if s.Ready() == nil {
			t.Error("it is ready")
		}
	})
	close(ready)
	if !listens(t, s, 5*time.Second) {
		t.Fatal("it does not listen")
	}
	t.Run("the server is ready while the groups can be trusted, and otherwise its error names the cause (CA-C06, F-145)", func(t *testing.T) {
		away := errors.New("the API server has been out of reach for 31s")
		for _, untrusted := range []error{nil, away, nil} {
			groups.distrust(untrusted)
			if got := s.Ready(); !errors.Is(got, untrusted) {
				t.Errorf("Ready() = %v, want %v", got, untrusted)
			}
		}
	})
}
