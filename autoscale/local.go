package autoscale

import (
	"context"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/proto"
)

// Local is a connection to the service for a client in the same process, without a socket. Messages are encoded and decoded as
// on the wire. Each call runs in its caller's goroutine, with the same checks as over a socket. Thus a client and the service
// can run in virtual time, which advances only when all goroutines are idle: a goroutine that waits on a socket never counts as
// idle.
func (s *Server) Local() grpc.ClientConnInterface {
	return &local{server: s, service: &service{groups: s.options.Groups, gpuLabel: s.options.GPULabel}}
}

type local struct {
	server  *Server
	service proto.CloudProviderServer
}

// Invoke carries out one call.
func (l *local) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	name := path.Base(method)
	for _, m := range proto.CloudProvider_ServiceDesc.Methods {
		if m.MethodName != name {
			continue
		}
		answer, err := m.Handler(l.service, ctx, func(in any) error { return convey(args, in) }, l.server.guard)
		if err != nil {
			return status.Convert(err).Err()
		}
		return convey(answer, reply)
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s", method)
}

// NewStream returns an error because the protocol has no streams.
func (l *local) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Errorf(codes.Unimplemented, "unknown method %s", method)
}

// convey copies a message to the other side by encoding and decoding it.
func convey(from, to any) error {
	codec := encoding.GetCodecV2(encodingproto.Name)
	raw, err := codec.Marshal(from)
	if err != nil {
		return status.Errorf(codes.Internal, "encoding a message: %v", err)
	}
	defer raw.Free()
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw.Materialize())}, to); err != nil {
		return status.Errorf(codes.Internal, "decoding a message: %v", err)
	}
	return nil
}
