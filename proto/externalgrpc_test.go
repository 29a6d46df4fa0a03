package proto_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/proto"
)

const timestamp, duration = "google.protobuf.Timestamp", "google.protobuf.Duration"

// fields is the wire format of cluster-autoscaler's releases 1.25 to 1.37: the message, then the number, type and name of each
// field. A change of a line here breaks a client.
var fields = map[string][]string{
	"NodeGroup":                           {"1 string id", "2 int32 minSize", "3 int32 maxSize", "4 string debug"},
	"ExternalGrpcNode":                    {"1 string providerID", "2 string name", "3 map<string,string> labels", "4 map<string,string> annotations"},
	"NodeGroupsRequest":                   nil,
	"NodeGroupsResponse":                  {"1 []NodeGroup nodeGroups"},
	"NodeGroupForNodeRequest":             {"1 ExternalGrpcNode node"},
	"NodeGroupForNodeResponse":            {"1 NodeGroup nodeGroup"},
	"PricingNodePriceRequest":             {"1 ExternalGrpcNode node", "2 " + timestamp + " startTime", "3 " + timestamp + " endTime", "4 " + timestamp + " startTimestamp", "5 " + timestamp + " endTimestamp"},
	"PricingNodePriceResponse":            {"1 double price"},
	"PricingPodPriceRequest":              {"1 bytes pod", "2 " + timestamp + " startTime", "3 " + timestamp + " endTime", "4 bytes pod_bytes", "5 " + timestamp + " startTimestamp", "6 " + timestamp + " endTimestamp"},
	"PricingPodPriceResponse":             {"1 double price"},
	"GPULabelRequest":                     nil,
	"GPULabelResponse":                    {"1 string label"},
	"GetAvailableGPUTypesRequest":         nil,
	"GetAvailableGPUTypesResponse":        {"1 map<string,google.protobuf.Any> gpuTypes"},
	"CleanupRequest":                      nil,
	"CleanupResponse":                     nil,
	"RefreshRequest":                      nil,
	"RefreshResponse":                     nil,
	"NodeGroupTargetSizeRequest":          {"1 string id"},
	"NodeGroupTargetSizeResponse":         {"1 int32 targetSize"},
	"NodeGroupIncreaseSizeRequest":        {"1 int32 delta", "2 string id"},
	"NodeGroupIncreaseSizeResponse":       nil,
	"NodeGroupDeleteNodesRequest":         {"1 []ExternalGrpcNode nodes", "2 string id"},
	"NodeGroupDeleteNodesResponse":        nil,
	"NodeGroupDecreaseTargetSizeRequest":  {"1 int32 delta", "2 string id"},
	"NodeGroupDecreaseTargetSizeResponse": nil,
	"NodeGroupNodesRequest":               {"1 string id"},
	"NodeGroupNodesResponse":              {"1 []Instance instances"},
	"Instance":                            {"1 string id", "2 InstanceStatus status"},
	"InstanceStatus":                      {"1 InstanceStatus.InstanceState instanceState", "2 InstanceErrorInfo errorInfo"},
	"InstanceErrorInfo":                   {"1 string errorCode", "2 string errorMessage", "3 int32 instanceErrorClass"},
	"NodeGroupTemplateNodeInfoRequest":    {"1 string id"},
	"NodeGroupTemplateNodeInfoResponse":   {"1 bytes nodeInfo", "2 bytes nodeBytes", "3 []bytes resourceSliceBytes"},
	"LegacyDuration":                      {"1 int64 duration"},
	"NodeGroupAutoscalingOptions": {
		"1 double scaleDownUtilizationThreshold", "2 double scaleDownGpuUtilizationThreshold",
		"3 LegacyDuration scaleDownUnneededTime", "4 LegacyDuration scaleDownUnreadyTime", "5 LegacyDuration MaxNodeProvisionTime",
		"6 bool zeroOrMaxNodeScaling", "7 bool ignoreDaemonSetsUtilization",
		"8 " + duration + " scaleDownUnneededDuration", "9 " + duration + " scaleDownUnreadyDuration", "10 " + duration + " MaxNodeProvisionDuration",
		"11 " + duration + " maxNodeStartupDuration", "12 bool allowNonAtomicScaleUpToMax",
	},
	"NodeGroupAutoscalingOptionsRequest":  {"1 string id", "2 NodeGroupAutoscalingOptions defaults"},
	"NodeGroupAutoscalingOptionsResponse": {"1 NodeGroupAutoscalingOptions nodeGroupAutoscalingOptions"},
}

// methods are the names of the 15 methods, in the order in which the service declares them.
var methods = []string{
	"NodeGroups(NodeGroupsRequest) NodeGroupsResponse",
	"NodeGroupForNode(NodeGroupForNodeRequest) NodeGroupForNodeResponse",
	"PricingNodePrice(PricingNodePriceRequest) PricingNodePriceResponse",
	"PricingPodPrice(PricingPodPriceRequest) PricingPodPriceResponse",
	"GPULabel(GPULabelRequest) GPULabelResponse",
	"GetAvailableGPUTypes(GetAvailableGPUTypesRequest) GetAvailableGPUTypesResponse",
	"Cleanup(CleanupRequest) CleanupResponse",
	"Refresh(RefreshRequest) RefreshResponse",
	"NodeGroupTargetSize(NodeGroupTargetSizeRequest) NodeGroupTargetSizeResponse",
	"NodeGroupIncreaseSize(NodeGroupIncreaseSizeRequest) NodeGroupIncreaseSizeResponse",
	"NodeGroupDeleteNodes(NodeGroupDeleteNodesRequest) NodeGroupDeleteNodesResponse",
	"NodeGroupDecreaseTargetSize(NodeGroupDecreaseTargetSizeRequest) NodeGroupDecreaseTargetSizeResponse",
	"NodeGroupNodes(NodeGroupNodesRequest) NodeGroupNodesResponse",
	"NodeGroupTemplateNodeInfo(NodeGroupTemplateNodeInfoRequest) NodeGroupTemplateNodeInfoResponse",
	"NodeGroupGetOptions(NodeGroupAutoscalingOptionsRequest) NodeGroupAutoscalingOptionsResponse",
}

const pkg = "clusterautoscaler.cloudprovider.v1.externalgrpc"

func TestTheWireFormatEqualsThatOfClusterAutoscaler(t *testing.T) {
	file := proto.File_externalgrpc_proto
	if got := string(file.Package()); got != pkg {
		t.Errorf("CA-C10 the package is %q, cluster-autoscaler calls %q", got, pkg)
	}
	t.Run("every message has all fields, and only those, that cluster-autoscaler's releases from 1.25 to 1.37 use (CA-C10)", func(t *testing.T) {
		got := map[string][]string{}
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i)
			var lines []string
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				lines = append(lines, fmt.Sprintf("%d %s %s", f.Number(), typeOf(f), f.Name()))
			}
			got[string(m.Name())] = lines
		}
		if diff := cmp.Diff(fields, got); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	})
	t.Run("the service has exactly cluster-autoscaler's 15 unary methods (CA-C10)", func(t *testing.T) {
		service := file.Services().ByName("CloudProvider")
		var got []string
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			if m.IsStreamingClient() || m.IsStreamingServer() {
				t.Errorf("%s streams", m.Name())
			}
			got = append(got, fmt.Sprintf("%s(%s) %s", m.Name(), m.Input().Name(), m.Output().Name()))
		}
		if diff := cmp.Diff(methods, got); diff != "" {
			t.Errorf("methods (-want +got):\n%s", diff)
		}
	})
	t.Run("the states of an instance have cluster-autoscaler's numbers", func(t *testing.T) {
		want := map[int32]string{0: "unspecified", 1: "instanceRunning", 2: "instanceCreating", 3: "instanceDeleting"}
		if diff := cmp.Diff(want, proto.InstanceStatus_InstanceState_name); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

// typeOf returns a field's type in the notation of the variable fields.
func typeOf(f protoreflect.FieldDescriptor) string {
	if f.IsMap() {
		return fmt.Sprintf("map<%s,%s>", typeOf(f.MapKey()), typeOf(f.MapValue()))
	}
	name := f.Kind().String()
	switch f.Kind() {
	case protoreflect.MessageKind:
		name = relative(f.Message())
	case protoreflect.EnumKind:
		name = relative(f.Enum())
	}
	if f.IsList() {
		return "[]" + name
	}
	return name
}

func relative(d protoreflect.Descriptor) string {
	full := string(d.FullName())
	if len(full) > len(pkg) && full[:len(pkg)] == pkg {
		return full[len(pkg)+1:]
	}
	return full
}

// embedded returns a message with one field, which has the given number and contains body, an encoded message. Clients that are
// compiled against the Kubernetes types write and read the field in this form.
func embedded(number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
}

func TestMessagesToAndFromOlderReleasesOfClusterAutoscaler(t *testing.T) {
	t.Run("a pod that release 1.25 sends as an embedded message can be read from the bytes field (CA-C10)", func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
		body, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var req proto.PricingPodPriceRequest
		if err := gproto.Unmarshal(embedded(1, body), &req); err != nil {
			t.Fatal(err)
		}
		var got corev1.Pod
		if err := got.Unmarshal(req.GetPod()); err != nil {
			t.Fatal(err)
		}
		if got.Name != "web" || got.Namespace != "shop" {
			t.Errorf("read %s/%s", got.Namespace, got.Name)
		}
	})
	t.Run("a node's start time that release 1.25 sends is read as a timestamp (CA-C10)", func(t *testing.T) {
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		sent := metav1.NewTime(at)
		body, err := sent.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var req proto.PricingNodePriceRequest
		if err := gproto.Unmarshal(embedded(2, body), &req); err != nil {
			t.Fatal(err)
		}
		if got := req.GetStartTime().AsTime(); !got.Equal(at) {
			t.Errorf("read %s, sent %s", got, at)
		}
	})
	t.Run("a duration that release 1.29 sends as an embedded message is read as nanoseconds (CA-C10)", func(t *testing.T) {
		d := metav1.Duration{Duration: 15 * time.Minute}
		body, err := d.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var options proto.NodeGroupAutoscalingOptions
		if err := gproto.Unmarshal(embedded(5, body), &options); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(options.GetMaxNodeProvisionTime().GetDuration()); got != 15*time.Minute {
			t.Errorf("read %s", got)
		}
	})
	t.Run("a client that expects an embedded Node can read the Node from the bytes that drover sends (CA-C10)", func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "template"}}
		body, err := node.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		sent, err := gproto.Marshal(&proto.NodeGroupTemplateNodeInfoResponse{NodeInfo: body})
		if err != nil {
			t.Fatal(err)
		}
		number, _, n := protowire.ConsumeTag(sent)
		inner, _ := protowire.ConsumeBytes(sent[n:])
		var got corev1.Node
		if err := got.Unmarshal(inner); err != nil {
			t.Fatal(err)
		}
		if number != 1 || got.Name != "template" {
			t.Errorf("field %d holds node %q", number, got.Name)
		}
	})
	t.Run("an unknown field in a client's request is ignored (CA-C09)", func(t *testing.T) {
		var req proto.NodeGroupTargetSizeRequest
		if err := gproto.Unmarshal(append(embedded(1, []byte("g")), embedded(99, []byte("later"))...), &req); err != nil || req.GetId() != "g" {
			t.Errorf("read %q, error %v", req.GetId(), err)
		}
	})
}
