package autoscaler

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/proto"
)

// outOfResources is the error class for a lack of capacity or quota in the cloud.
const outOfResources = 1

// provider is the gRPC client with cluster-autoscaler's caches. The list of groups and the group of each node are cached until the next
// Refresh, which drops them even when it fails. The answer "no group" is never cached. The GPU label is cached after the first success.
type provider struct {
	rpc     proto.CloudProviderClient
	timeout time.Duration

	// mu guards the fields below. It is held during calls, as in cluster-autoscaler.
	mu     gate
	groups []Group
	listed bool
	ofNode map[string]Group
	gpu    *string
	types  bool
}

func newProvider(rpc proto.CloudProviderClient, timeout time.Duration) *provider {
	return &provider{rpc: rpc, timeout: timeout, ofNode: map[string]Group{}, mu: make(gate, 1)}
}

// gate is a lock that lets virtual time pass while a goroutine waits for it.
type gate chan struct{}

func (g gate) Lock()   { g <- struct{}{} }
func (g gate) Unlock() { <-g }

func (p *provider) refresh(ctx context.Context) error {
	p.mu.Lock()
	p.groups, p.listed, p.ofNode = nil, false, map[string]Group{}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	_, err := p.rpc.Refresh(ctx, &proto.RefreshRequest{})
	return named("Refresh", err)
}

// list returns the node groups. When the call fails it returns none, as cluster-autoscaler does.
func (p *provider) list(ctx context.Context) ([]Group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed {
		return p.groups, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.NodeGroups(ctx, &proto.NodeGroupsRequest{})
	if err != nil {
		return nil, named("NodeGroups", err)
	}
	p.groups, p.listed = nil, true
	for _, g := range answer.GetNodeGroups() {
		p.groups = append(p.groups, groupOf(g))
	}
	return p.groups, nil
}

func groupOf(g *proto.NodeGroup) Group {
	return Group{ID: g.GetId(), Min: int(g.GetMinSize()), Max: int(g.GetMaxSize())}
}

// forNode returns the group of a node; the group's ID is empty when the node belongs to no group.
func (p *provider) forNode(ctx context.Context, n *corev1.Node) (Group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := n.Name + "\x00" + n.Spec.ProviderID
	if g, ok := p.ofNode[key]; ok {
		return g, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.NodeGroupForNode(ctx, &proto.NodeGroupForNodeRequest{Node: wireNode(n)})
	if err != nil {
		return Group{}, named("NodeGroupForNode "+n.Name, err)
	}
	g := groupOf(answer.GetNodeGroup())
	if g.ID != "" {
		p.ofNode[key] = g
	}
	return g, nil
}

func wireNode(n *corev1.Node) *proto.ExternalGrpcNode {
	return &proto.ExternalGrpcNode{ProviderID: n.Spec.ProviderID, Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
}

// gpuLabel returns the GPU label. It requests the label and the GPU types until each request has succeeded once.
func (p *provider) gpuLabel(ctx context.Context) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if !p.types {
		_, err := p.rpc.GetAvailableGPUTypes(ctx, &proto.GetAvailableGPUTypesRequest{})
		p.types = err == nil
	}
	if p.gpu == nil {
		answer, err := p.rpc.GPULabel(ctx, &proto.GPULabelRequest{})
		if err != nil {
			return ""
		}
		label := answer.GetLabel()
		p.gpu = &label
	}
	return *p.gpu
}

func (p *provider) targetSize(ctx context.Context, group string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.NodeGroupTargetSize(ctx, &proto.NodeGroupTargetSizeRequest{Id: group})
	return int(answer.GetTargetSize()), named("NodeGroupTargetSize "+group, err)
}

func (p *provider) instances(ctx context.Context, group string) ([]Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.NodeGroupNodes(ctx, &proto.NodeGroupNodesRequest{Id: group})
	if err != nil {
		return nil, named("NodeGroupNodes "+group, err)
	}
	var out []Instance
	for _, i := range answer.GetInstances() {
		fault := i.GetStatus().GetErrorInfo()
		entry := Instance{ID: i.GetId(), State: i.GetStatus().GetInstanceState()}
		if fault.GetErrorCode() != "" {
			entry.Code, entry.Message = fault.GetErrorCode(), fault.GetErrorMessage()
			entry.OutOfResource = fault.GetInstanceErrorClass() == outOfResources
		}
		out = append(out, entry)
	}
	return out, nil
}

// template returns the template node of a group; nil when the provider has no template nodes (Unimplemented).
func (p *provider) template(ctx context.Context, group string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.NodeGroupTemplateNodeInfo(ctx, &proto.NodeGroupTemplateNodeInfoRequest{Id: group})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, named("NodeGroupTemplateNodeInfo "+group, err)
	}
	if len(answer.GetNodeBytes()) == 0 {
		return nil, fmt.Errorf("calling NodeGroupTemplateNodeInfo for %s: the response is empty; cluster-autoscaler would crash here", group)
	}
	n := &corev1.Node{}
	if err := n.Unmarshal(answer.GetNodeBytes()); err != nil {
		return nil, named("NodeGroupTemplateNodeInfo "+group, err)
	}
	return n, nil
}

func (p *provider) increase(ctx context.Context, group string, delta int) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	_, err := p.rpc.NodeGroupIncreaseSize(ctx, &proto.NodeGroupIncreaseSizeRequest{Id: group, Delta: int32(delta)})
	return named("NodeGroupIncreaseSize "+group, err)
}

func (p *provider) decrease(ctx context.Context, group string, delta int) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	_, err := p.rpc.NodeGroupDecreaseTargetSize(ctx, &proto.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: int32(-delta)})
	return named("NodeGroupDecreaseTargetSize "+group, err)
}

func (p *provider) delete(ctx context.Context, group string, nodes ...*corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request := &proto.NodeGroupDeleteNodesRequest{Id: group}
	for _, n := range nodes {
		request.Nodes = append(request.Nodes, wireNode(n))
	}
	_, err := p.rpc.NodeGroupDeleteNodes(ctx, request)
	return named("NodeGroupDeleteNodes "+group, err)
}

// options returns the options of a group. When the response is Unimplemented or empty, options returns the values of the flags. Any
// other response replaces all options: a field that the response lacks is zero.
func (p *provider) options(ctx context.Context, group string, flags Settings) (Settings, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.rpc.NodeGroupGetOptions(ctx, &proto.NodeGroupAutoscalingOptionsRequest{Id: group, Defaults: wireOptions(flags)})
	if status.Code(err) == codes.Unimplemented || err == nil && answer.GetNodeGroupAutoscalingOptions() == nil {
		return flags, nil
	}
	if err != nil {
		return Settings{}, named("NodeGroupGetOptions "+group, err)
	}
	got := answer.GetNodeGroupAutoscalingOptions()
	return Settings{
		Threshold:     got.GetScaleDownUtilizationThreshold(),
		UnneededTime:  got.GetScaleDownUnneededDuration().AsDuration(),
		UnreadyTime:   got.GetScaleDownUnreadyDuration().AsDuration(),
		ProvisionTime: got.GetMaxNodeProvisionDuration().AsDuration(),
		ZeroOrMax:     got.GetZeroOrMaxNodeScaling(),
		// The protocol has no field for StartupTime, so any response sets it to zero.
	}, nil
}

func named(call string, err error) error {
	if err != nil {
		return fmt.Errorf("calling %s: %w", call, err)
	}
	return nil
}

// wireOptions returns the defaults in a request for options, as clients since 1.35 send them.
func wireOptions(s Settings) *proto.NodeGroupAutoscalingOptions {
	return &proto.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    s.Threshold,
		ScaleDownGpuUtilizationThreshold: s.Threshold,
		ScaleDownUnneededDuration:        durationpb.New(s.UnneededTime),
		ScaleDownUnreadyDuration:         durationpb.New(s.UnreadyTime),
		MaxNodeProvisionDuration:         durationpb.New(s.ProvisionTime),
	}
}
