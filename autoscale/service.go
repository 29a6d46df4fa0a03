package autoscale

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/proto"
)

// Groups are the node groups about which the service answers calls. *nodegroup.Groups implements the interface.
type Groups interface {
	Refresh(ctx context.Context) error
	Trusted() error
	List() []model.Listing
	ForNode(n membership.Node) (model.Listing, bool)
	TargetSize(id string) (int32, error)
	Instances(id string) ([]model.Instance, error)
	TemplateNode(id string) ([]byte, error)
	IncreaseSize(ctx context.Context, id string, delta int32) error
	DeleteNodes(ctx context.Context, id string, nodes []membership.Node) error
	DecreaseTargetSize(ctx context.Context, id string, delta int32) error
	Settings(id string, defaults model.Settings) (model.Settings, bool)
	NodePrice(n membership.Node, start, end time.Time) (float64, error)
	PodPrice(pod *corev1.Pod, start, end time.Time) (float64, error)
	GPUTypes() []string
	Started()
	Connected(ctx context.Context)
}

// The error classes of cluster-autoscaler.
const (
	classOutOfResources = 1
	classOther          = 99
)

// service answers the calls of the externalgrpc protocol. It makes no decisions.
type service struct {
	proto.UnimplementedCloudProviderServer
	groups   Groups
	gpuLabel string
}

func (s *service) NodeGroups(context.Context, *proto.NodeGroupsRequest) (*proto.NodeGroupsResponse, error) {
	list := s.groups.List()
	out := make([]*proto.NodeGroup, 0, len(list))
	for _, g := range list {
		out = append(out, group(g))
	}
	return &proto.NodeGroupsResponse{NodeGroups: out}, nil
}

func (s *service) NodeGroupForNode(_ context.Context, r *proto.NodeGroupForNodeRequest) (*proto.NodeGroupForNodeResponse, error) {
	g, ok := s.groups.ForNode(node(r.GetNode()))
	if !ok {
		return &proto.NodeGroupForNodeResponse{NodeGroup: &proto.NodeGroup{}}, nil
	}
	return &proto.NodeGroupForNodeResponse{NodeGroup: group(g)}, nil
}

// GPULabel records the start of a client, because each client calls it once, when it starts.
func (s *service) GPULabel(context.Context, *proto.GPULabelRequest) (*proto.GPULabelResponse, error) {
	s.groups.Started()
	return &proto.GPULabelResponse{Label: s.gpuLabel}, nil
}

func (s *service) GetAvailableGPUTypes(context.Context, *proto.GetAvailableGPUTypesRequest) (*proto.GetAvailableGPUTypesResponse, error) {
	types := map[string]*anypb.Any{}
	for _, t := range s.groups.GPUTypes() {
		types[t] = &anypb.Any{}
	}
	return &proto.GetAvailableGPUTypesResponse{GpuTypes: types}, nil
}

// Cleanup changes nothing, because the client calls it at every end of its process, also before an upgrade (CA-C03).
func (s *service) Cleanup(context.Context, *proto.CleanupRequest) (*proto.CleanupResponse, error) {
	return &proto.CleanupResponse{}, nil
}

func (s *service) Refresh(ctx context.Context, _ *proto.RefreshRequest) (*proto.RefreshResponse, error) {
	return &proto.RefreshResponse{}, statusOf(s.groups.Refresh(ctx))
}

func (s *service) NodeGroupTargetSize(_ context.Context, r *proto.NodeGroupTargetSizeRequest) (*proto.NodeGroupTargetSizeResponse, error) {
	size, err := s.groups.TargetSize(r.GetId())
	return &proto.NodeGroupTargetSizeResponse{TargetSize: size}, statusOf(err)
}

func (s *service) NodeGroupIncreaseSize(ctx context.Context, r *proto.NodeGroupIncreaseSizeRequest) (*proto.NodeGroupIncreaseSizeResponse, error) {
	return &proto.NodeGroupIncreaseSizeResponse{}, statusOf(s.groups.IncreaseSize(ctx, r.GetId(), r.GetDelta()))
}

func (s *service) NodeGroupDeleteNodes(ctx context.Context, r *proto.NodeGroupDeleteNodesRequest) (*proto.NodeGroupDeleteNodesResponse, error) {
	nodes := make([]membership.Node, 0, len(r.GetNodes()))
	for _, n := range r.GetNodes() {
		nodes = append(nodes, node(n))
	}
	return &proto.NodeGroupDeleteNodesResponse{}, statusOf(s.groups.DeleteNodes(ctx, r.GetId(), nodes))
}

func (s *service) NodeGroupDecreaseTargetSize(ctx context.Context, r *proto.NodeGroupDecreaseTargetSizeRequest) (*proto.NodeGroupDecreaseTargetSizeResponse, error) {
	return &proto.NodeGroupDecreaseTargetSizeResponse{}, statusOf(s.groups.DecreaseTargetSize(ctx, r.GetId(), r.GetDelta()))
}

func (s *service) NodeGroupNodes(_ context.Context, r *proto.NodeGroupNodesRequest) (*proto.NodeGroupNodesResponse, error) {
	instances, err := s.groups.Instances(r.GetId())
	if err != nil {
		return nil, statusOf(err)
	}
	out := make([]*proto.Instance, 0, len(instances))
	for _, i := range instances {
		out = append(out, instance(i))
	}
	return &proto.NodeGroupNodesResponse{Instances: out}, nil
}

// NodeGroupTemplateNodeInfo sets both fields for the template node: releases up to 1.34 read the older field, and releases from
// 1.34.2 on read the newer one (CA-C10).
func (s *service) NodeGroupTemplateNodeInfo(_ context.Context, r *proto.NodeGroupTemplateNodeInfoRequest) (*proto.NodeGroupTemplateNodeInfoResponse, error) {
	raw, err := s.groups.TemplateNode(r.GetId())
	if err != nil {
		return nil, statusOf(err)
	}
	if len(raw) == 0 {
		// An empty answer would crash the client.
		return nil, status.Errorf(codes.Unimplemented, "the resources of a new node of %s are not known", r.GetId())
	}
	return &proto.NodeGroupTemplateNodeInfoResponse{NodeInfo: raw, NodeBytes: raw}, nil
}

func group(g model.Listing) *proto.NodeGroup {
	return &proto.NodeGroup{Id: g.ID, MinSize: g.Min, MaxSize: g.Max, Debug: g.Debug}
}

func node(n *proto.ExternalGrpcNode) membership.Node {
	return membership.Node{ProviderID: n.GetProviderID(), Name: n.GetName(), Labels: n.GetLabels(), Annotations: n.GetAnnotations()}
}

var states = map[model.State]proto.InstanceStatus_InstanceState{
	model.Running:  proto.InstanceStatus_instanceRunning,
	model.Creating: proto.InstanceStatus_instanceCreating,
	model.Deleting: proto.InstanceStatus_instanceDeleting,
}

func instance(i model.Instance) *proto.Instance {
	out := &proto.Instance{Id: i.ID, Status: &proto.InstanceStatus{InstanceState: states[i.State]}}
	if e := i.Error; e != nil {
		info := &proto.InstanceErrorInfo{ErrorCode: e.Code, ErrorMessage: e.Message, InstanceErrorClass: classOther}
		if e.OutOfResources {
			info.InstanceErrorClass = classOutOfResources
		}
		out.Status.ErrorInfo = info
	}
	return out
}
