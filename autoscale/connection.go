package autoscale

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/drover-project/drover/proto"
)

// connection is the state that all calls of one connection share. gRPC passes it to each call as the peer's AuthInfo. A stats.Handler
// could do this too, but gRPC calls it seven times for each call, and an autoscaler loop in which nothing changes would take a third
// longer.
type connection struct {
	// AuthInfo is the result of the handshake with the client.
	credentials.AuthInfo
	// conn is what the connection is closed with.
	conn net.Conn
	// first is used once, at the connection's first call to the service: it waits until the groups have read their sizes.
	first sync.Once
}

// connectionOf returns the connection of a call; nil for a call in the same process.
func connectionOf(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*connection)
	return c
}

// welcome delays the first call of a connection to the service until the groups have read their sizes from the API server,
// because another replica may have changed the sizes for this client (CA-C36). Other calls on the connection wait too.
// Groups.Connected limits the delay.
func welcome(ctx context.Context, groups Groups, method string) {
	c := connectionOf(ctx)
	if c != nil && strings.HasPrefix(method, "/"+proto.CloudProvider_ServiceDesc.ServiceName+"/") {
		// All calls on the connection wait until the groups have read their sizes. The cancellation of the first call must not
		// end this wait.
		c.first.Do(func() { groups.Connected(context.WithoutCancel(ctx)) })
	}
}

// dismissAfter is how long a connection stays open after a Refresh that was refused: long enough for the answer to reach the client, and
// shorter than the time until the autoscaler's next call.
const dismissAfter = time.Second

// dismiss closes the connection of a client whose Refresh was refused, when the groups cannot be trusted. A client stays with its
// connection, and so with this replica, while another replica may be healthy. Its next call makes a new connection.
func dismiss(ctx context.Context, groups Groups, method string, refused error) {
	c := connectionOf(ctx)
	if c != nil && refused != nil && method == proto.CloudProvider_Refresh_FullMethodName && groups.Trusted() != nil {
		// gRPC cannot send GOAWAY on one connection alone. Between two loops, the autoscaler has no call on it that would fail.
		time.AfterFunc(dismissAfter, func() { _ = c.conn.Close() })
	}
}
