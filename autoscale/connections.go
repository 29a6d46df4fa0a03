package autoscale

import (
	"net"
	"slices"
	"sync"
)

// Connections are the open connections of a server. When one more than the limit is added, the oldest connection of the address
// that has most of them is closed. So a client that opens many connections closes its own, and other clients can still connect.
type Connections struct {
	most int
	mu   sync.Mutex
	open []net.Conn // oldest first
}

// NewConnections returns Connections with a limit.
func NewConnections(most int) *Connections { return &Connections{most: most} }

// Add adds a connection, and closes another one when the limit is exceeded.
func (c *Connections) Add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conn)
	if len(c.open) > c.most {
		at := surplus(c.open)
		_ = c.open[at].Close()
		c.open = slices.Delete(c.open, at, at+1)
	}
}

// Remove removes a connection. It ignores one that was closed at the limit.
func (c *Connections) Remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.open, conn); at >= 0 {
		c.open = slices.Delete(c.open, at, at+1)
	}
}

// UntilClosed adds raw, and returns conn with a method Close that removes raw. conn may be raw itself, or an encrypted connection
// over raw.
func (c *Connections) UntilClosed(raw, conn net.Conn) net.Conn {
	c.Add(raw)
	return counted{conn, func() { c.Remove(raw) }}
}

// Listener returns a listener whose connections count until they are closed.
func (c *Connections) Listener(l net.Listener) net.Listener { return listener{l, c} }

// surplus returns the index of the oldest connection of the address that has most.
func surplus(open []net.Conn) (at int) {
	count := map[string]int{}
	for _, conn := range open {
		count[host(conn)]++
	}
	for i, conn := range open {
		if count[host(conn)] > count[host(open[at])] {
			at = i
		}
	}
	return at
}

// host returns the address of a connection's client without the port; empty for a unix socket.
func host(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}

type listener struct {
	net.Listener
	connections *Connections
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.connections.UntilClosed(conn, conn), nil
}

type counted struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c counted) Close() error {
	c.closed()
	return c.Conn.Close()
}
