package autoscale

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/proto"
)

func TestFieldsOfGRPCRequestsAndAnswers(t *testing.T) {
	s := &stub{
		groups: []model.Listing{{ID: "MachineDeployment/x/a", Min: 1, Max: 5, Debug: "line"}},
		owner:  model.Listing{ID: "MachineDeployment/x/a", Min: 1, Max: 5, Debug: "line"},
		owned:  true, size: 3, template: []byte("node"),
		instances: []model.Instance{
			{ID: "openstack:///1", State: model.Running},
			{ID: "MachineDeployment/x/a/0/0", State: model.Creating},
			{ID: "openstack:///2", State: model.Deleting},
			{ID: "MachineDeployment/x/a/machine/m", State: model.Creating, Error: &model.InstanceError{Code: "QuotaExceeded", Message: "no cores", OutOfResources: true}},
			{ID: "MachineDeployment/x/a/machine/n", State: model.Creating, Error: &model.InstanceError{Code: "InvalidSpec", Message: "typo"}},
		},
	}
	c := connect(t, s)
	ctx := t.Context()
	group := &proto.NodeGroup{Id: "MachineDeployment/x/a", MinSize: 1, MaxSize: 5, Debug: "line"}
	id := "MachineDeployment/x/a"
	asked := &proto.ExternalGrpcNode{ProviderID: "p", Name: "n", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}}
	for _, tc := range []struct {
		name string
		call func() (gproto.Message, error)
		want gproto.Message
	}{
		{"NodeGroups returns the id, the bounds and the debug text of each group", func() (gproto.Message, error) { return c.NodeGroups(ctx, &proto.NodeGroupsRequest{}) },
			&proto.NodeGroupsResponse{NodeGroups: []*proto.NodeGroup{group}}},
		{"NodeGroupForNode returns the group with its bounds (CA-C25)", func() (gproto.Message, error) {
			return c.NodeGroupForNode(ctx, &proto.NodeGroupForNodeRequest{Node: asked})
		}, &proto.NodeGroupForNodeResponse{NodeGroup: group}},
		{"NodeGroupTargetSize returns the size of the group", func() (gproto.Message, error) {
			return c.NodeGroupTargetSize(ctx, &proto.NodeGroupTargetSizeRequest{Id: id})
		}, &proto.NodeGroupTargetSizeResponse{TargetSize: 3}},
		{"NodeGroupNodes returns the state of each instance, and the class of its error (CA-C48)", func() (gproto.Message, error) {
			return c.NodeGroupNodes(ctx, &proto.NodeGroupNodesRequest{Id: id})
		}, &proto.NodeGroupNodesResponse{Instances: []*proto.Instance{
			{Id: "openstack:///1", Status: &proto.InstanceStatus{InstanceState: proto.InstanceStatus_instanceRunning}},
			{Id: "MachineDeployment/x/a/0/0", Status: &proto.InstanceStatus{InstanceState: proto.InstanceStatus_instanceCreating}},
			{Id: "openstack:///2", Status: &proto.InstanceStatus{InstanceState: proto.InstanceStatus_instanceDeleting}},
			{Id: "MachineDeployment/x/a/machine/m", Status: &proto.InstanceStatus{InstanceState: proto.InstanceStatus_instanceCreating,
				ErrorInfo: &proto.InstanceErrorInfo{ErrorCode: "QuotaExceeded", ErrorMessage: "no cores", InstanceErrorClass: 1}}},
			{Id: "MachineDeployment/x/a/machine/n", Status: &proto.InstanceStatus{InstanceState: proto.InstanceStatus_instanceCreating,
				ErrorInfo: &proto.InstanceErrorInfo{ErrorCode: "InvalidSpec", ErrorMessage: "typo", InstanceErrorClass: 99}}},
		}}},
		{"NodeGroupTemplateNodeInfo returns the group's template Node both in nodeInfo and in nodeBytes (CA-C10)", func() (gproto.Message, error) {
			return c.NodeGroupTemplateNodeInfo(ctx, &proto.NodeGroupTemplateNodeInfoRequest{Id: id})
		}, &proto.NodeGroupTemplateNodeInfoResponse{NodeInfo: []byte("node"), NodeBytes: []byte("node")}},
		{"NodeGroupIncreaseSize returns an empty answer", func() (gproto.Message, error) {
			return c.NodeGroupIncreaseSize(ctx, &proto.NodeGroupIncreaseSizeRequest{Id: id, Delta: 2})
		}, &proto.NodeGroupIncreaseSizeResponse{}},
		{"NodeGroupDecreaseTargetSize returns an empty answer", func() (gproto.Message, error) {
			return c.NodeGroupDecreaseTargetSize(ctx, &proto.NodeGroupDecreaseTargetSizeRequest{Id: id, Delta: -2})
		}, &proto.NodeGroupDecreaseTargetSizeResponse{}},
		{"NodeGroupDeleteNodes returns an empty answer", func() (gproto.Message, error) {
			return c.NodeGroupDeleteNodes(ctx, &proto.NodeGroupDeleteNodesRequest{Id: id, Nodes: []*proto.ExternalGrpcNode{asked}})
		}, &proto.NodeGroupDeleteNodesResponse{}},
		{"Refresh returns an empty answer", func() (gproto.Message, error) { return c.Refresh(ctx, &proto.RefreshRequest{}) }, &proto.RefreshResponse{}},
		{"Cleanup returns an empty answer (CA-C03)", func() (gproto.Message, error) { return c.Cleanup(ctx, &proto.CleanupRequest{}) }, &proto.CleanupResponse{}},
		{"GPULabel returns an empty label when the groups have none (CA-C105)", func() (gproto.Message, error) { return c.GPULabel(ctx, &proto.GPULabelRequest{}) }, &proto.GPULabelResponse{}},
		{"GetAvailableGPUTypes returns no types when the groups have none (CA-C105)", func() (gproto.Message, error) {
			return c.GetAvailableGPUTypes(ctx, &proto.GetAvailableGPUTypesRequest{})
		}, &proto.GetAvailableGPUTypesResponse{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.call()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("NodeGroupDeleteNodes and NodeGroupDecreaseTargetSize pass all fields of the request to package nodegroup", func(t *testing.T) {
		if _, err := c.NodeGroupDeleteNodes(ctx, &proto.NodeGroupDeleteNodesRequest{Id: id, Nodes: []*proto.ExternalGrpcNode{asked, {}, nil}}); err != nil {
			t.Fatal(err)
		}
		want := []membership.Node{{ProviderID: "p", Name: "n", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"}}, {}, {}}
		if diff := cmp.Diff(want, s.nodes); diff != "" || s.id != id {
			t.Errorf("id %q, nodes (-want +got):\n%s", s.id, diff)
		}
		if _, err := c.NodeGroupDecreaseTargetSize(ctx, &proto.NodeGroupDecreaseTargetSizeRequest{Id: id, Delta: -7}); err != nil || s.delta != -7 {
			t.Errorf("delta %d, error %v", s.delta, err)
		}
	})
}

func TestAnswersToGRPCCallsForWhichDroverHasNoResult(t *testing.T) {
	s := &stub{}
	c := connect(t, s)
	ctx := t.Context()
	for _, tc := range []struct {
		name string
		call func() error
	}{
		{"NodeGroupGetOptions returns Unimplemented for a group without options of its own (CA-C90, CA-C92)", func() error {
			_, err := c.NodeGroupGetOptions(ctx, &proto.NodeGroupAutoscalingOptionsRequest{Id: "g", Defaults: &proto.NodeGroupAutoscalingOptions{}})
			return err
		}},
		{"PricingNodePrice returns Unimplemented when drover has no prices (CA-C106)", func() error { _, err := c.PricingNodePrice(ctx, &proto.PricingNodePriceRequest{}); return err }},
		{"PricingPodPrice returns Unimplemented when drover has no prices (CA-C106)", func() error { _, err := c.PricingPodPrice(ctx, &proto.PricingPodPriceRequest{}); return err }},
		{"NodeGroupTemplateNodeInfo returns Unimplemented for a group without a template Node (CA-C98)", func() error {
			_, err := c.NodeGroupTemplateNodeInfo(ctx, &proto.NodeGroupTemplateNodeInfoRequest{Id: "g"})
			return err
		}},
		{"a call of a method that only a newer version of the protocol has returns Unimplemented (CA-C09)", func() error {
			address, _ := serving(t, Options{Groups: s, Insecure: true})
			return dial(t, address, nil).Invoke(ctx, "/"+proto.CloudProvider_ServiceDesc.ServiceName+"/Tomorrow", &proto.RefreshRequest{}, &proto.RefreshResponse{})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := status.Code(tc.call()); got != codes.Unimplemented {
				t.Errorf("the code is %s, want Unimplemented", got)
			}
		})
	}
	t.Run("NodeGroupForNode returns an empty group id for a Node that belongs to no node group (CA-C27)", func(t *testing.T) {
		for _, n := range []*proto.ExternalGrpcNode{nil, {}, {Name: "x"}} {
			got, err := c.NodeGroupForNode(ctx, &proto.NodeGroupForNodeRequest{Node: n})
			if err != nil || got.GetNodeGroup() == nil || got.GetNodeGroup().GetId() != "" {
				t.Errorf("the answer for %v is %v, error %v", n, got, err)
			}
		}
	})
}

func TestEachErrorOfPackageNodegroupBecomesAGRPCStatusCode(t *testing.T) {
	for err, want := range map[error]codes.Code{
		&model.Error{Kind: model.InvalidArgument}:    codes.InvalidArgument,
		&model.Error{Kind: model.NotFound}:           codes.NotFound,
		&model.Error{Kind: model.FailedPrecondition}: codes.FailedPrecondition,
		&model.Error{Kind: model.ResourceExhausted}:  codes.ResourceExhausted,
		&model.Error{Kind: model.Unavailable}:        codes.Unavailable,
		&model.Error{Kind: model.Unimplemented}:      codes.Unimplemented,
		context.DeadlineExceeded:                     codes.DeadlineExceeded,
		context.Canceled:                             codes.Canceled,
		errors.New("anything else"):                  codes.Internal,
	} {
		t.Run("every method returns "+want.String()+" when package nodegroup returns an error with the same meaning", func(t *testing.T) {
			c := connect(t, &stub{err: err})
			ctx := t.Context()
			_, e1 := c.NodeGroupIncreaseSize(ctx, &proto.NodeGroupIncreaseSizeRequest{})
			_, e2 := c.NodeGroupDeleteNodes(ctx, &proto.NodeGroupDeleteNodesRequest{})
			_, e3 := c.NodeGroupDecreaseTargetSize(ctx, &proto.NodeGroupDecreaseTargetSizeRequest{})
			_, e4 := c.NodeGroupTargetSize(ctx, &proto.NodeGroupTargetSizeRequest{})
			_, e5 := c.NodeGroupNodes(ctx, &proto.NodeGroupNodesRequest{})
			_, e6 := c.NodeGroupTemplateNodeInfo(ctx, &proto.NodeGroupTemplateNodeInfoRequest{})
			_, e7 := c.Refresh(ctx, &proto.RefreshRequest{})
			for i, e := range []error{e1, e2, e3, e4, e5, e6, e7} {
				if got := status.Code(e); got != want {
					t.Errorf("call %d answers %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

func TestAPanicInAGRPCCallDoesNotStopDrover(t *testing.T) {
	t.Run("a call whose handler panics returns Internal, and the next call succeeds (CA-C11)", func(t *testing.T) {
		s := &stub{panics: true}
		c := connect(t, s)
		if _, err := c.Refresh(t.Context(), &proto.RefreshRequest{}); status.Code(err) != codes.Internal {
			t.Errorf("CA-C11 the call answers %v", err)
		}
		if _, err := c.NodeGroups(t.Context(), &proto.NodeGroupsRequest{}); err != nil {
			t.Errorf("CA-C11 the next call answers %v", err)
		}
	})
}

func TestTheSizeOfAGRPCRequestIsLimited(t *testing.T) {
	t.Run("a request of 7 MiB is accepted, and one of 9 MiB is refused (CA-C08, F-98)", func(t *testing.T) {
		s := &stub{}
		c := connect(t, s)
		big := &proto.ExternalGrpcNode{Name: "n", Annotations: map[string]string{"a": string(make([]byte, 1<<20))}}
		req := &proto.NodeGroupDeleteNodesRequest{Id: "g"}
		for range 7 {
			req.Nodes = append(req.Nodes, big)
		}
		if _, err := c.NodeGroupDeleteNodes(t.Context(), req); err != nil || len(s.nodes) != 7 {
			t.Errorf("CA-C08 7 MiB arrive as %d nodes, error %v", len(s.nodes), err)
		}
		for range 2 {
			req.Nodes = append(req.Nodes, big)
		}
		if _, err := c.NodeGroupDeleteNodes(t.Context(), req); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("CA-C08 9 MiB answer %v", err)
		}
	})
}

// FuzzArbitraryBytesAsAGRPCRequestCauseNoPanic sends arbitrary bytes as the request of every method: no call may panic.
func FuzzArbitraryBytesAsAGRPCRequestCauseNoPanic(f *testing.F) {
	f.Add(0, []byte{})
	f.Add(1, []byte{0x0a, 0x05, 0x0a, 0x03, 'a', 'b', 'c'})
	f.Add(9, []byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add(10, []byte{0x0a, 0x00, 0x0a, 0x02, 0xff, 0xfe})
	s := &service{groups: &stub{}}
	methods := proto.CloudProvider_ServiceDesc.Methods
	f.Fuzz(func(t *testing.T, n int, raw []byte) {
		method := methods[uint(n)%uint(len(methods))]
		decode := func(into any) error { return gproto.Unmarshal(raw, into.(gproto.Message)) }
		resp, err := method.Handler(s, t.Context(), decode, nil)
		if err == nil && resp == nil {
			t.Fatalf("%s answers nothing at all", method.MethodName)
		}
	})
}
