package autoscale

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/proto"
)

func legacy(d time.Duration) *proto.LegacyDuration { return &proto.LegacyDuration{Duration: int64(d)} }

func TestWhatNodeGroupGetOptionsReturns(t *testing.T) {
	want := model.Settings{
		UtilizationThreshold: 0.5, GPUUtilizationThreshold: 0.6, UnneededTime: time.Minute, UnreadyTime: 2 * time.Minute,
		ProvisionTime: 15 * time.Minute, ZeroOrMax: true, IgnoreDaemonSets: true,
	}
	older := &proto.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold: 0.5, ScaleDownGpuUtilizationThreshold: 0.6, ScaleDownUnneededTime: legacy(time.Minute),
		ScaleDownUnreadyTime: legacy(2 * time.Minute), MaxNodeProvisionTime: legacy(15 * time.Minute),
		ZeroOrMaxNodeScaling: true, IgnoreDaemonSetsUtilization: true,
	}
	newer := &proto.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold: 0.5, ScaleDownGpuUtilizationThreshold: 0.6, ScaleDownUnneededDuration: durationpb.New(time.Minute),
		ScaleDownUnreadyDuration: durationpb.New(2 * time.Minute), MaxNodeProvisionDuration: durationpb.New(15 * time.Minute),
		ZeroOrMaxNodeScaling: true, IgnoreDaemonSetsUtilization: true,
	}
	both := gproto.Clone(older).(*proto.NodeGroupAutoscalingOptions)
	gproto.Merge(both, newer)
	next := gproto.Clone(newer).(*proto.NodeGroupAutoscalingOptions)
	next.MaxNodeStartupDuration, next.AllowNonAtomicScaleUpToMax = durationpb.New(3*time.Minute), true
	for name, defaults := range map[string]*proto.NodeGroupAutoscalingOptions{
		"an autoscaler of a release from 1.29 to 1.34.1 receives all options (CA-C91)":                                              older,
		"an autoscaler of release 1.35 or later receives all options (CA-C91)":                                                      newer,
		"an autoscaler of release 1.34.2 receives all options (CA-C91)":                                                             both,
		"an autoscaler of a future release receives all options, and fields unknown to drover come back as they were sent (CA-C91)": next,
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{own: true, settings: want}
			got, err := connect(t, s).NodeGroupGetOptions(t.Context(), &proto.NodeGroupAutoscalingOptionsRequest{Id: "g", Defaults: defaults})
			if err != nil || s.defaults != want {
				t.Fatalf("the client's flags arrive as %+v, error %v", s.defaults, err)
			}
			// The answer must contain the older and the newer fields of each option, and the fields
			// that drover does not know as the client sent them.
			expected := gproto.Clone(both).(*proto.NodeGroupAutoscalingOptions)
			expected.MaxNodeStartupDuration, expected.AllowNonAtomicScaleUpToMax = defaults.GetMaxNodeStartupDuration(), defaults.GetAllowNonAtomicScaleUpToMax()
			if !gproto.Equal(got.GetNodeGroupAutoscalingOptions(), expected) {
				t.Errorf("the answer is %v, want %v", got.GetNodeGroupAutoscalingOptions(), expected)
			}
		})
	}
	t.Run("an autoscaler that does not send its default options receives Unimplemented (CA-C92, CA-C93)", func(t *testing.T) {
		s := &stub{}
		for _, r := range []*proto.NodeGroupAutoscalingOptionsRequest{{}, {Id: "g"}, {Id: "g", Defaults: &proto.NodeGroupAutoscalingOptions{ScaleDownUnneededTime: legacy(time.Minute)}}} {
			if _, err := connect(t, s).NodeGroupGetOptions(t.Context(), r); status.Code(err) != codes.Unimplemented || s.defaults.ProvisionTime != 0 {
				t.Errorf("the answer is %v, the flags %+v", err, s.defaults)
			}
		}
	})
}

func TestRequestsForThePricesOfNodesAndPods(t *testing.T) {
	s := &stub{price: 1.5}
	c := connect(t, s)
	start, end := time.Unix(1000, 0).UTC(), time.Unix(4600, 0).UTC()
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "x"}}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() (float64, error){
		"a request with the times in the fields of older clients returns the price of the node (CA-C107)": func() (float64, error) {
			r, err := c.PricingNodePrice(t.Context(), &proto.PricingNodePriceRequest{Node: &proto.ExternalGrpcNode{Name: "x"}, StartTime: timestamppb.New(start), EndTime: timestamppb.New(end)})
			return r.GetPrice(), err
		},
		"a request with the times in the fields of newer clients returns the price of the node (CA-C107)": func() (float64, error) {
			r, err := c.PricingNodePrice(t.Context(), &proto.PricingNodePriceRequest{Node: &proto.ExternalGrpcNode{Name: "x"}, StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end)})
			return r.GetPrice(), err
		},
		"a request with the pod and the times in the fields of older clients returns the price of the pod (CA-C107)": func() (float64, error) {
			r, err := c.PricingPodPrice(t.Context(), &proto.PricingPodPriceRequest{Pod: raw, StartTime: timestamppb.New(start), EndTime: timestamppb.New(end)})
			return r.GetPrice(), err
		},
		"a request with the pod and the times in the fields of newer clients returns the price of the pod (CA-C107)": func() (float64, error) {
			r, err := c.PricingPodPrice(t.Context(), &proto.PricingPodPriceRequest{PodBytes: raw, StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end)})
			return r.GetPrice(), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.start, s.end, s.nodes, s.pod = time.Time{}, time.Time{}, nil, nil
			price, err := call()
			if err != nil || price != 1.5 || !s.start.Equal(start) || !s.end.Equal(end) {
				t.Errorf("price %v from %v to %v, error %v", price, s.start, s.end, err)
			}
			if (s.pod == nil || s.pod.Spec.NodeName != "x") && (len(s.nodes) != 1 || s.nodes[0].Name != "x") {
				t.Errorf("asked for pod %v, nodes %v", s.pod, s.nodes)
			}
		})
	}
	t.Run("a request for the price of a pod is refused with InvalidArgument when its pod cannot be decoded", func(t *testing.T) {
		if _, err := c.PricingPodPrice(t.Context(), &proto.PricingPodPriceRequest{PodBytes: []byte{0xff, 0xff}}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("the answer is %v", err)
		}
	})
}

func TestWhatGRPCCallsAboutGPUsReturn(t *testing.T) {
	s := &stub{gpuTypes: []string{"a100", "h100"}}
	address, _ := serving(t, Options{Groups: s, Insecure: true, GPULabel: "gpu"})
	c := proto.NewCloudProviderClient(dial(t, address, nil))
	t.Run("GetAvailableGPUTypes returns the GPU types of the node groups (CA-C105)", func(t *testing.T) {
		got, err := c.GetAvailableGPUTypes(t.Context(), &proto.GetAvailableGPUTypesRequest{})
		if err != nil || len(got.GetGpuTypes()) != 2 || got.GetGpuTypes()["a100"] == nil || got.GetGpuTypes()["h100"] == nil {
			t.Errorf("the types are %v, error %v", got, err)
		}
	})
	t.Run("GPULabel returns the value of --gpu-label, and counts as the start of an autoscaler, which calls it only when it starts (CA-C105)", func(t *testing.T) {
		got, err := c.GPULabel(t.Context(), &proto.GPULabelRequest{})
		if err != nil || got.GetLabel() != "gpu" || s.starts != 1 {
			t.Errorf("the label is %v, error %v, %d starts", got, err, s.starts)
		}
	})
}

func TestAMetricCountsGRPCCallsByMethodAndStatusCode(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := &stub{}
	address, _ := serving(t, Options{Groups: s, Insecure: true, Registry: registry})
	c := proto.NewCloudProviderClient(dial(t, address, nil))
	for range 3 {
		_, _ = c.Refresh(t.Context(), &proto.RefreshRequest{})
	}
	s.err = &model.Error{Kind: model.NotFound}
	_, _ = c.NodeGroupTargetSize(t.Context(), &proto.NodeGroupTargetSizeRequest{Id: "x"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range families[0].GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		lines = append(lines, strings.Join(labels, " "))
	}
	if n := testutil.CollectAndCount(registry); n != 2 || strings.Join(lines, ", ") != "NotFound NodeGroupTargetSize, OK Refresh" {
		t.Errorf("%d metrics: %v", n, lines)
	}
}

func TestTheGRPCServerSetsADeadlineForACallWhoseClientSetsNone(t *testing.T) {
	s := &stub{}
	address, _ := serving(t, Options{Groups: s, Insecure: true})
	if _, err := proto.NewCloudProviderClient(dial(t, address, nil)).Refresh(t.Context(), &proto.RefreshRequest{}); err != nil {
		t.Fatal(err)
	}
	if s.left <= 0 || s.left > callDeadline {
		t.Errorf("the call may take %s", s.left)
	}
}

func TestALargeAnswerOfTheGRPCServerReachesTheClient(t *testing.T) {
	t.Run("the client receives 30,000 instances in one answer, 1,000 of them with an error (CA-C55, CA-C08)", func(t *testing.T) {
		s := &stub{}
		for n := range 30_000 {
			i := model.Instance{State: model.Running, ID: "openstack:///0d1c6e9e-7d3f-4b8e-9c39-000000000000"}
			if n < 1000 {
				i = model.Instance{State: model.Creating, ID: "MachineDeployment/kube-system/general-purpose/machine/general-purpose-7d9c6bb8f4-abcde",
					Error: &model.InstanceError{Code: "NoValidHost", Message: strings.Repeat("m", 256), OutOfResources: true}}
			}
			s.instances = append(s.instances, i)
		}
		got, err := connect(t, s).NodeGroupNodes(t.Context(), &proto.NodeGroupNodesRequest{Id: "g"})
		if err != nil || len(got.GetInstances()) != 30_000 {
			t.Errorf("%d instances arrive, error %v", len(got.GetInstances()), err)
		}
	})
}
