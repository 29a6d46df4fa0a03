package autoscale

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/drover-project/drover/proto"
)

// slow is a stub whose calls of TargetSize end one by one.
type slow struct {
	*stub
	running, most int
	finish        chan struct{}
}

func (s *slow) TargetSize(string) (int32, error) {
	s.count(1)
	<-s.finish
	s.count(-1)
	return 0, nil
}

// count changes the number of running calls, and returns it.
func (s *slow) count(by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += by
	s.most = max(s.most, s.running)
	return s.running
}

func TestTheNumberOfCallsIsLimited(t *testing.T) {
	t.Run("4 calls of a connection are carried out at the same time, and further ones wait for their turn (F-98)", func(t *testing.T) {
		s := &slow{stub: &stub{}, finish: make(chan struct{})}
		client := connect(t, s)
		answered := make(chan error, 10*mostStreams)
		for range cap(answered) {
			go func() {
				_, err := client.NodeGroupTargetSize(t.Context(), &proto.NodeGroupTargetSizeRequest{Id: "g"})
				answered <- err
			}()
		}
		if !eventually(t, 5*time.Second, func() bool { return s.count(0) == mostStreams }) {
			t.Errorf("%d calls are carried out, want %d", s.count(0), mostStreams)
		}
		for range cap(answered) {
			s.finish <- struct{}{}
			if err := <-answered; err != nil {
				t.Errorf("a call: %v", err)
			}
		}
		if s.most > mostStreams {
			t.Errorf("%d calls were carried out at the same time, want %d", s.most, mostStreams)
		}
	})
	t.Run("a call with more than 8 KiB of headers is refused (F-98)", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "padding", strings.Repeat("x", maxHeaders))
		if _, err := connect(t, &stub{}).NodeGroups(ctx, &proto.NodeGroupsRequest{}); err == nil {
			t.Error("it is answered")
		}
	})
}

func TestAFloodOfConnectionsLeavesThoseOfOtherAddressesOpen(t *testing.T) {
	ours := newAuthority(t)
	cert, key, ca := ours.files(t.TempDir(), "drover")
	address, _ := serving(t, Options{Groups: &stub{}, Cert: cert, Key: key, ClientCA: ca, AllowedClients: []string{"autoscaler"}})
	t.Run("a client whose handshake has begun before 500 connections of another address can finish it (F-98)", func(t *testing.T) {
		raw := from(t, "127.0.0.1", address)
		for range 500 {
			from(t, "127.0.0.2", address)
		}
		// The server accepts connections in order: when it has answered this call, it has accepted all others.
		if err := call(t, address, ours.credentials("autoscaler", ours)); err != nil {
			t.Errorf("a later client: %v", err)
		}
		secure := tls.Client(raw, ours.config(t, "autoscaler"))
		if err := secure.HandshakeContext(t.Context()); err != nil {
			t.Errorf("the earlier client: %v", err)
		}
	})
	t.Run("a connection of another address stays open while one address opens more authenticated ones than the limit (F-98)", func(t *testing.T) {
		client := proto.NewCloudProviderClient(dial(t, address, ours.credentials("autoscaler", ours)))
		if _, err := client.NodeGroups(t.Context(), &proto.NodeGroupsRequest{}); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{}, 3*mostConnections)
		for range cap(closed) {
			secure := tls.Client(from(t, "127.0.0.2", address), ours.config(t, "autoscaler"))
			if err := secure.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.Copy(io.Discard, secure)
				closed <- struct{}{}
			}()
		}
		// One of the connections within the limit is the client's.
		for n := range cap(closed) - (mostConnections - 1) {
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Fatalf("only %d connections are closed", n)
			}
		}
		if _, err := client.NodeGroups(t.Context(), &proto.NodeGroupsRequest{}); err != nil {
			t.Errorf("the first client: %v", err)
		}
	})
}

// from opens a connection from an address of this machine.
func from(t *testing.T, address string, to net.Addr) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.DialContext(t.Context(), to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// config returns the TLS configuration of a client with a certificate of the authority.
func (a *authority) config(t *testing.T, name string) *tls.Config {
	t.Helper()
	cert, key, _ := a.files(t.TempDir(), name)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: "127.0.0.1", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
}
