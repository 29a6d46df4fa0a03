package autoscale

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// handshakeTimeout is how long a connection may take until its first call can be sent. This time includes TLS and the
	// HTTP/2 preface.
	handshakeTimeout = 10 * time.Second
	// mostHandshakes is how many connections may be in their TLS handshake at the same time. An autoscaler needs only one.
	mostHandshakes = 64
)

// handshakes are transport credentials that limit the number of connections in their handshake, because any client that can
// reach the port may open connections without a certificate. When a new connection exceeds the limit, the oldest connection is
// closed, so that a client that completes its handshake can still connect. The connections must come from the method listener,
// which records them in the order in which they were accepted. Their handshakes may begin in another order.
type handshakes struct {
	credentials.TransportCredentials
	mu   sync.Mutex
	open []net.Conn // oldest first
}

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer h.end(raw)
	return h.TransportCredentials.ServerHandshake(raw)
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{TransportCredentials: h.TransportCredentials.Clone()}
}

// listener wraps l and counts each accepted connection until its handshake ends.
func (h *handshakes) listener(l net.Listener) net.Listener { return counted{l, h} }

type counted struct {
	net.Listener
	handshakes *handshakes
}

// Accept implements net.Listener.
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.handshakes.begin(conn)
	}
	return conn, err
}

func (h *handshakes) begin(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) == mostHandshakes {
		_ = h.open[0].Close()
		h.open = h.open[1:]
	}
	h.open = append(h.open, conn)
}

// end removes a connection whose handshake has ended from the list. A connection that was closed at the limit is not in the
// list any more.
func (h *handshakes) end(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, c := range h.open {
		if c == conn {
			h.open = append(h.open[:i:i], h.open[i+1:]...)
			return
		}
	}
}
