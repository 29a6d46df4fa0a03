package autoscale

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/stats"

	"github.com/drover-project/drover/proto"
)

// connections gives each connection a value of its own, which the context of its calls holds. It is a stats.Handler without
// statistics.
type connections struct{}

// firstCall is the key of a connection's sync.Once in the context of its calls.
type firstCall struct{}

// TagConn implements stats.Handler.
func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, firstCall{}, &sync.Once{})
}

// HandleConn implements stats.Handler.
func (connections) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (connections) HandleRPC(context.Context, stats.RPCStats) {}

// welcome notes the first call of a connection to the service, and returns when the groups have seen what another replica may
// have written for that client (CA-C36). Other calls of the connection that come meanwhile wait too: none is answered before.
// The groups bound the time.
func welcome(ctx context.Context, groups Groups, method string) {
	first, ok := ctx.Value(firstCall{}).(*sync.Once)
	if ok && strings.HasPrefix(method, "/"+proto.CloudProvider_ServiceDesc.ServiceName+"/") {
		// The other calls need it even when the first one is canceled.
		first.Do(func() { groups.Connected(context.WithoutCancel(ctx)) })
	}
}
