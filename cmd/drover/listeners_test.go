package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// runnables collects what is added to a manager.
type runnables struct {
	manager.Manager
	added []manager.Runnable
}

func (r *runnables) Add(m manager.Runnable) error {
	r.added = append(r.added, m)
	return nil
}

// serving starts a server with the limits of drover's HTTP servers, and returns its address.
func serving(t *testing.T, h http.Handler) string {
	t.Helper()
	address := freePort(t)
	mgr := &runnables{}
	must(t, addServer(mgr, "--health-address", address, newServer(h)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- mgr.added[0].Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return address
}

// from opens a connection from an address of this machine.
func from(t *testing.T, local, to string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", to)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestTheHTTPServersLimitTheirClients(t *testing.T) {
	address := serving(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, tt := range map[string]struct{ bytes, want int }{
		"a request with 4 KiB of headers is answered (F-90)": {4 << 10, http.StatusOK},
		"a request with 16 KiB of headers is refused (F-90)": {16 << 10, http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address, http.NoBody)
			must(t, err)
			request.Header.Set("X-Padding", strings.Repeat("x", tt.bytes))
			response, err := http.DefaultClient.Do(request)
			must(t, err)
			must(t, response.Body.Close())
			if response.StatusCode != tt.want {
				t.Errorf("the status is %d, want %d", response.StatusCode, tt.want)
			}
		})
	}
	t.Run("a client of one address keeps its connection while another address opens 600 (F-90)", func(t *testing.T) {
		mine := from(t, "127.0.0.1", address)
		var theirs []net.Conn
		for range 600 {
			theirs = append(theirs, from(t, "127.0.0.2", address))
		}
		// The server accepts connections in order: when it has answered this probe on a new connection, it has accepted all others.
		if code := statusOf(from(t, "127.0.0.1", address)); code != "HTTP/1.1 200 OK" {
			t.Errorf("a probe: %q", code)
		}
		if code := statusOf(mine); code != "HTTP/1.1 200 OK" {
			t.Errorf("the earlier client: %q", code)
		}
		open := 0
		for _, conn := range theirs {
			if statusOf(conn) == "HTTP/1.1 200 OK" {
				open++
			}
		}
		if open > httpConnections {
			t.Errorf("%d of their connections are open, want at most %d", open, httpConnections)
		}
	})
}

// statusOf sends a request on a connection, and returns the first line of the answer; empty when the server has closed it.
func statusOf(conn net.Conn) string {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: drover\r\n\r\n"); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

func TestAConnectionThatSendsNoRequestIsClosedAfterFiveSeconds(t *testing.T) {
	t.Run("a connection whose request is not complete after 5 seconds is closed (F-90)", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			listener := bufconn.Listen(1 << 10)
			server := newServer(http.NotFoundHandler())
			go func() { _ = server.Serve(listener) }()
			conn, err := listener.DialContext(t.Context())
			must(t, err)
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\n")
			must(t, err)
			began := time.Now()
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("reading: %v", err)
			}
			if took := time.Since(began); took != httpRequest {
				t.Errorf("it ended after %v, want %v", took, httpRequest)
			}
			must(t, server.Close())
		})
	})
}

func TestFewPagesAreWrittenAtTheSameTime(t *testing.T) {
	t.Run("while 4 pages are being written, one more request is answered 503, and the next after these 200 (F-90)", func(t *testing.T) {
		release, begun := make(chan struct{}), make(chan struct{})
		address := serving(t, few(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				begun <- struct{}{}
				<-release
			}
		})))
		ended := make(chan int)
		for range httpPages {
			go func() { ended <- status(t, "http://"+address+"/slow") }()
			<-begun
		}
		if code := status(t, "http://"+address+"/"); code != http.StatusServiceUnavailable {
			t.Errorf("the status is %d", code)
		}
		close(release)
		for range httpPages {
			if code := <-ended; code != http.StatusOK {
				t.Errorf("a slow page: %d", code)
			}
		}
		if code := status(t, "http://"+address+"/"); code != http.StatusOK {
			t.Errorf("the status is %d", code)
		}
	})
}

func TestProfilesAreServedOnlyWhenEnabled(t *testing.T) {
	t.Run("profiles are not served by default (MCM-112)", func(t *testing.T) {
		if got := defaults().profiles(); got != off {
			t.Errorf("they are served on %s", got)
		}
	})
	t.Run("with the feature profiling, only clients on the same machine can read profiles (MCM-112)", func(t *testing.T) {
		o := defaults()
		o.features = []string{profiling}
		if at, err := netip.ParseAddrPort(o.profiles()); err != nil || !at.Addr().IsLoopback() {
			t.Errorf("they are served on %v, %v", at, err)
		}
	})
}

func TestAPortThatIsInUseIsNamedWithItsFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, taken.Close()) }()
	err = addServer(&runnables{}, "--metrics-address", taken.Addr().String(), newServer(http.NotFoundHandler()))
	if err == nil || !strings.Contains(err.Error(), "--metrics-address "+taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
