package autoscale

import (
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// handshakeTimeout is how long a connection may take until its first call can be sent. This time includes TLS and the
	// HTTP/2 preface.
	handshakeTimeout = 10 * time.Second
	// mostHandshakes is how many connections may be in their TLS handshake at the same time, and mostConnections how many may be
	// open after it. An autoscaler needs one; others are needed while it is replaced, and for a person who looks.
	mostHandshakes, mostConnections = 64, 4
	// mostStreams is how many calls of one connection are carried out at the same time; further ones wait in the client. The
	// requests of all connections need at most mostConnections times mostStreams times maxReceive bytes before they are decoded.
	mostStreams = 4
)

// handshakes are the transport credentials of the server: TLS, or none for connections of unix sockets. They attach a connection value to
// each connection. They limit the connections in their handshake, because any client that can reach the port may open connections without
// a certificate, and those after it. The connections must come from the method listener, which counts them in the order in which they
// were accepted. Their handshakes may begin in another order.
type handshakes struct {
	credentials.TransportCredentials
	pending, established *Connections
}

func newHandshakes(c credentials.TransportCredentials) *handshakes {
	return &handshakes{c, NewConnections(mostHandshakes), NewConnections(mostConnections)}
}

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer h.pending.Remove(raw)
	creds := h.TransportCredentials
	if onSocket(raw) {
		creds = insecure.NewCredentials()
	}
	conn, shown, err := creds.ServerHandshake(raw)
	if err != nil {
		return conn, shown, err
	}
	conn = h.established.UntilClosed(raw, conn)
	return conn, &connection{AuthInfo: shown, conn: conn}, nil
}

// Clone implements credentials.TransportCredentials.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return newHandshakes(h.TransportCredentials.Clone())
}

// listener wraps l and counts each accepted connection until its handshake ends.
func (h *handshakes) listener(l net.Listener) net.Listener { return accepted{l, h.pending} }

type accepted struct {
	net.Listener
	pending *Connections
}

// Accept implements net.Listener.
func (a accepted) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.pending.Add(conn)
	}
	return conn, err
}
