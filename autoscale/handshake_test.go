package autoscale

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

func TestConnectionsWithoutATLSHandshakeAreLimited(t *testing.T) {
	ours := newAuthority(t)
	cert, key, ca := ours.files(t.TempDir(), "drover")

	t.Run("at most 64 of 500 connections without a handshake stay open, and a client can still connect (F-14)", func(t *testing.T) {
		address, _ := serving(t, Options{Groups: &stub{}, Cert: cert, Key: key, ClientCA: ca})
		var silent []net.Conn
		for range 500 {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), address.Network(), address.String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			silent = append(silent, conn)
		}
		// The server accepts connections in order: when it has answered the client's call, it has accepted every
		// earlier connection.
		if err := call(t, address, ours.credentials("autoscaler", ours)); err != nil {
			t.Errorf("a client's call: %v", err)
		}
		closed := 0
		for _, conn := range silent {
			if ended(t, conn) {
				closed++
			}
		}
		if want := len(silent) - mostHandshakes; closed < want {
			t.Errorf("%d of %d silent connections are closed, want at least %d", closed, len(silent), want)
		}
	})

	t.Run("a connection without a handshake is closed after 10 seconds (F-14)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{Groups: &stub{}, Cert: cert, Key: key, ClientCA: ca})
			if err != nil {
				t.Fatal(err)
			}
			listener := bufconn.Listen(1)
			go func() { _ = s.server.Serve(listener) }()
			conn, err := listener.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("the server has sent something")
			}
			if took := time.Since(began); took != handshakeTimeout {
				t.Errorf("the connection ended after %v, want %v", took, handshakeTimeout)
			}
			s.server.Stop()
		})
	})
}

// ended reports whether the server has closed the connection. The server sends nothing before the client does.
func ended(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
