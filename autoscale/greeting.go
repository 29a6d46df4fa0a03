package autoscale

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// greeting tells the groups of each client that has connected and may, before its first call is read: after a fail-over the
// replica can see then what another one has written for that client (CA-C36). The client waits for the end of the handshake
// and takes nothing amiss.
type greeting struct {
	credentials.TransportCredentials
	groups  Groups
	allowed []string
}

// ServerHandshake is credentials.TransportCredentials'.
func (g greeting) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err == nil && permit(info, g.allowed) == nil {
		// Nothing of the call is there yet that could end; the groups bound the time.
		g.groups.Connected(context.Background())
	}
	return conn, info, err
}

// Clone is credentials.TransportCredentials'.
func (g greeting) Clone() credentials.TransportCredentials {
	return greeting{g.TransportCredentials.Clone(), g.groups, g.allowed}
}
