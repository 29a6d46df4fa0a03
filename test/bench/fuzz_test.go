package bench

import (
	"path"
	"reflect"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/proto"
)

// FuzzArbitraryGRPCRequestsMakeDroverNeitherPanicNorWriteToKubernetes sends arbitrary bytes as the request of each method of the service, on a server with real
// node groups. Nothing may panic or be written. The groups are at both of their bounds, so that even a valid request
// writes nothing, and there is no client for writes.
func FuzzArbitraryGRPCRequestsMakeDroverNeitherPanicNorWriteToKubernetes(f *testing.F) {
	for n := range proto.CloudProvider_ServiceDesc.Methods {
		f.Add(n, []byte("\n\x25MachineDeployment/kube-system/pool\x10\x01"))
		f.Add(n, []byte("\n\x0a\n\x08pool-001\x12\x02x\x00"))
		f.Add(n, []byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	}
	s := still{objects: map[reflect.Type][]client.Object{}}
	nodes := s.pool("pool", 2, 2, 2)
	for _, n := range nodes {
		raw, err := gproto.Marshal(&proto.NodeGroupDeleteNodesRequest{
			Id: "MachineDeployment/kube-system/pool", Nodes: []*proto.ExternalGrpcNode{{ProviderID: n.Spec.ProviderID, Name: n.Name}},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(10, raw)
	}
	server, err := autoscale.New(autoscale.Options{Groups: s.groups(f), Insecure: true})
	if err != nil {
		f.Fatal(err)
	}
	local, methods := server.Local(), proto.File_externalgrpc_proto.Services().Get(0).Methods()
	f.Fuzz(func(t *testing.T, n int, raw []byte) {
		method := methods.Get(int(uint(n) % uint(methods.Len())))
		request, answer := made(t, method.Input().FullName()), made(t, method.Output().FullName())
		if gproto.Unmarshal(raw, request) != nil {
			return
		}
		name := path.Join("/", string(method.Parent().FullName()), string(method.Name()))
		if err := local.Invoke(t.Context(), name, request, answer); status.Code(err) == codes.Internal || status.Code(err) == codes.Unknown {
			t.Fatalf("%s of %v: %v", method.Name(), request, err)
		}
	})
}

// made returns an empty message of the protobuf type with this name.
func made(t *testing.T, name protoreflect.FullName) gproto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}
