package autoscaler

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/proto"
)

// oneGroup is a fake provider with one group that records its calls.
type oneGroup struct {
	proto.CloudProviderClient

	mu        sync.Mutex
	calls     []string
	target    int32
	refreshes error
	instances []*proto.Instance
	template  *corev1.Node
	members   map[string]bool
}

func (g *oneGroup) called(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, fmt.Sprintf(format, args...))
}

func (g *oneGroup) taken() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.calls
	g.calls = nil
	return out
}

func (g *oneGroup) group() *proto.NodeGroup { return &proto.NodeGroup{Id: "g", MinSize: 0, MaxSize: 5} }

func (g *oneGroup) Refresh(context.Context, *proto.RefreshRequest, ...grpc.CallOption) (*proto.RefreshResponse, error) {
	g.called("Refresh")
	return &proto.RefreshResponse{}, g.refreshes
}

func (g *oneGroup) NodeGroups(context.Context, *proto.NodeGroupsRequest, ...grpc.CallOption) (*proto.NodeGroupsResponse, error) {
	g.called("NodeGroups")
	return &proto.NodeGroupsResponse{NodeGroups: []*proto.NodeGroup{g.group()}}, nil
}

func (g *oneGroup) NodeGroupForNode(_ context.Context, r *proto.NodeGroupForNodeRequest, _ ...grpc.CallOption) (*proto.NodeGroupForNodeResponse, error) {
	g.called("ForNode %s", r.GetNode().GetName())
	if !g.members[r.GetNode().GetName()] {
		return &proto.NodeGroupForNodeResponse{NodeGroup: &proto.NodeGroup{}}, nil
	}
	return &proto.NodeGroupForNodeResponse{NodeGroup: g.group()}, nil
}

func (g *oneGroup) GPULabel(context.Context, *proto.GPULabelRequest, ...grpc.CallOption) (*proto.GPULabelResponse, error) {
	g.called("GPULabel")
	return &proto.GPULabelResponse{}, nil
}

func (g *oneGroup) GetAvailableGPUTypes(context.Context, *proto.GetAvailableGPUTypesRequest, ...grpc.CallOption) (*proto.GetAvailableGPUTypesResponse, error) {
	g.called("GPUTypes")
	return &proto.GetAvailableGPUTypesResponse{}, nil
}

func (g *oneGroup) NodeGroupTargetSize(context.Context, *proto.NodeGroupTargetSizeRequest, ...grpc.CallOption) (*proto.NodeGroupTargetSizeResponse, error) {
	g.called("TargetSize")
	return &proto.NodeGroupTargetSizeResponse{TargetSize: g.target}, nil
}

func (g *oneGroup) NodeGroupNodes(context.Context, *proto.NodeGroupNodesRequest, ...grpc.CallOption) (*proto.NodeGroupNodesResponse, error) {
	g.called("Nodes")
	return &proto.NodeGroupNodesResponse{Instances: g.instances}, nil
}

func (g *oneGroup) NodeGroupGetOptions(context.Context, *proto.NodeGroupAutoscalingOptionsRequest, ...grpc.CallOption) (*proto.NodeGroupAutoscalingOptionsResponse, error) {
	return nil, status.Error(codes.Unimplemented, "no overrides")
}

func (g *oneGroup) NodeGroupTemplateNodeInfo(context.Context, *proto.NodeGroupTemplateNodeInfoRequest, ...grpc.CallOption) (*proto.NodeGroupTemplateNodeInfoResponse, error) {
	g.called("Template")
	raw, err := g.template.Marshal()
	return &proto.NodeGroupTemplateNodeInfoResponse{NodeBytes: raw}, err
}

func (g *oneGroup) NodeGroupIncreaseSize(_ context.Context, r *proto.NodeGroupIncreaseSizeRequest, _ ...grpc.CallOption) (*proto.NodeGroupIncreaseSizeResponse, error) {
	g.called("Increase %d", r.GetDelta())
	g.target += r.GetDelta()
	return &proto.NodeGroupIncreaseSizeResponse{}, nil
}

func (g *oneGroup) NodeGroupDeleteNodes(_ context.Context, r *proto.NodeGroupDeleteNodesRequest, _ ...grpc.CallOption) (*proto.NodeGroupDeleteNodesResponse, error) {
	for _, n := range r.GetNodes() {
		g.called("Delete %s %s", n.GetName(), n.GetAnnotations()[fakeReason])
	}
	return &proto.NodeGroupDeleteNodesResponse{}, nil
}

func started(t *testing.T, g *oneGroup, objects ...runtime.Object) (*Autoscaler, *clocktesting.FakeClock) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := clocktesting.NewFakeClock(start)
	a, err := New(ctx, Options{
		Provider: g, Client: fake.NewClientset(objects...), Clock: c, Log: logr.Discard(), ScaleDownUnneededTime: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func loop(t *testing.T, a *Autoscaler) bool {
	t.Helper()
	acted, err := a.RunOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return acted
}

func unschedulable(name, cpu string) *corev1.Pod {
	p := podOf(name, cpu)
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	return p
}

func TestInItsFirstLoopTheAutoscalerAsksForEachNodesGroupAndForTheGPUTypesBeforeRefresh(t *testing.T) {
	g := &oneGroup{target: 1, template: readyOf("t", "g").Node, members: map[string]bool{"n1": true}}
	a, _ := started(t, g, readyOf("n1", "g").Node, readyOf("foreign", "").Node)
	loop(t, a)
	want := []string{
		"ForNode foreign", "ForNode n1", "GPUTypes", "GPULabel", "ForNode foreign",
		"Refresh", "NodeGroups", "ForNode foreign", "ForNode n1", "TargetSize", "Nodes",
		"ForNode foreign", "TargetSize", "TargetSize", "ForNode foreign", "ForNode foreign", "ForNode foreign", "ForNode foreign",
	}
	if got := g.taken(); !slices.Equal(got, want) {
		t.Errorf("first loop:\n got %v\nwant %v", got, want)
	}
	loop(t, a)
	want = []string{
		"ForNode foreign", "Refresh", "NodeGroups", "ForNode foreign", "ForNode n1", "TargetSize",
		"ForNode foreign", "TargetSize", "TargetSize", "ForNode foreign", "ForNode foreign", "ForNode foreign", "ForNode foreign",
	}
	if got := g.taken(); !slices.Equal(got, want) {
		t.Errorf("second loop, the instance list still cached:\n got %v\nwant %v", got, want)
	}
}

func TestAnAutoscalerLoopMakesNoFurtherCallAfterAFailedRefresh(t *testing.T) {
	g := &oneGroup{refreshes: status.Error(codes.Unavailable, "away")}
	a, _ := started(t, g)
	if _, err := a.RunOnce(t.Context()); err == nil {
		t.Error("got no error")
	}
	if got := g.taken(); !slices.Equal(got, []string{"Refresh"}) {
		t.Errorf("got %v", got)
	}
}

func TestAPendingPodScalesTheGroupUpOnce(t *testing.T) {
	g := &oneGroup{template: readyOf("t", "g").Node}
	a, _ := started(t, g, unschedulable("p", "1"))
	if !loop(t, a) || g.target != 1 {
		t.Errorf("target: got %d, want 1", g.target)
	}
	g.instances = []*proto.Instance{{Id: "new", Status: &proto.InstanceStatus{InstanceState: proto.InstanceStatus_instanceCreating}}}
	if loop(t, a) || g.target != 1 {
		t.Errorf("target size with that node upcoming = %d, want 1", g.target)
	}
}

func TestTheAutoscalerDeletesAFailedInstanceAndBacksOffFromItsGroup(t *testing.T) {
	g := &oneGroup{template: readyOf("t", "g").Node}
	a, c := started(t, g, unschedulable("p", "1"))
	loop(t, a)
	g.instances = []*proto.Instance{{Id: "broken", Status: &proto.InstanceStatus{
		InstanceState: proto.InstanceStatus_instanceCreating,
		ErrorInfo:     &proto.InstanceErrorInfo{ErrorCode: "QuotaExceeded", InstanceErrorClass: outOfResources},
	}}}
	g.taken()
	loop(t, a)
	calls := g.taken()
	if !slices.Contains(calls, "Delete broken create-error") {
		t.Errorf("got %v", calls)
	}
	if slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "Increase") }) {
		t.Errorf("a group grew during its back-off: %v", calls)
	}
	g.instances, g.target = nil, 0
	c.Step(5 * time.Minute)
	loop(t, a)
	if g.target != 1 {
		t.Errorf("target size after the back-off = %d, want 1", g.target)
	}
}

func TestAnUnneededNodeIsTaintedAndLaterDeleted(t *testing.T) {
	g := &oneGroup{target: 1, template: readyOf("t", "g").Node, members: map[string]bool{"n1": true}}
	a, c := started(t, g, readyOf("n1", "g").Node)
	loop(t, a)
	c.Step(30 * time.Second)
	if loop(t, a) {
		t.Error("the loop removed the node before it was unneeded for long enough")
	}
	c.Step(30 * time.Second)
	loop(t, a)
	a.remover.wait()
	if calls := g.taken(); !slices.Contains(calls, "Delete n1 ") {
		t.Errorf("got %v", calls)
	}
	n, err := a.o.Client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !hasTaint(n, TaintToBeDeleted) {
		t.Errorf("taints: got %v", n.Spec.Taints)
	}
}

func TestReadingTheCloudConfigFileOfTheAutoscaler(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"a file with every setting is accepted":             {"address: 127.0.0.1:1\nkey: k\ncert: c\ncacert: ca\ngrpc_timeout: 10s\n", ""},
		"a file whose address has no port is refused":       {"address: localhost\n", "address"},
		"a file with an unknown key is refused":             {"address: 127.0.0.1:1\nca: x\n", `"ca"`},
		"a file whose timeout is not a duration is refused": {"address: 127.0.0.1:1\ngrpc_timeout: soon\n", "grpc_timeout"},
		"an empty file is refused":                          {"\n", "address"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cloud.yaml")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadCloudConfig(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
