package autoscale

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// handshakeTimeout is how long a connection may take until its first call can be sent: TLS and the HTTP/2 preface.
	handshakeTimeout = 10 * time.Second
	// mostHandshakes is how many connections may be in their TLS handshake at a time. An autoscaler has one.
	mostHandshakes = 64
)

// handshakes are transport credentials that bound how many connections are in their handshake: whoever can reach the port may
// open connections without a certificate. One more closes the oldest, so that a client which answers still comes through.
type handshakes struct {
	credentials.TransportCredentials
	mu   sync.Mutex
	open []net.Conn // oldest first
}

// ServerHandshake is credentials.TransportCredentials'.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	h.begin(raw)
	defer h.end(raw)
	return h.TransportCredentials.ServerHandshake(raw)
}

// Clone is credentials.TransportCredentials'.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{TransportCredentials: h.TransportCredentials.Clone()}
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

// end forgets the connection, unless a later one has closed it already.
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
