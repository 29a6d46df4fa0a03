package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/sandbox"
)

var versions = regexp.MustCompile(`(?m)^( +)versions:$`)

// marked adds to a manifest the label and the permanent taint that a user may want on the nodes.
func marked(t *testing.T, manifest string) string {
	t.Helper()
	if !versions.MatchString(manifest) {
		t.Fatalf("the manifest has no versions:\n%s", manifest)
	}
	return versions.ReplaceAllString(manifest,
		"${1}metadata: {labels: {team: blue}}\n${1}taints: [{key: dedicated, value: blue, effect: NoSchedule}]\n${1}versions:")
}

// told returns the template node that drover returns to the autoscaler for a group without nodes.
func told(t *testing.T, s *sandbox.Sandbox, group string) *corev1.Node {
	t.Helper()
	drover := calls(t, s)
	id := "MachineDeployment/kube-system/" + group
	node := &corev1.Node{}
	eventually(t, func(ctx context.Context) (string, error) {
		if _, err := drover.Refresh(ctx, &proto.RefreshRequest{}); err != nil {
			return "a Refresh: " + err.Error(), nil
		}
		answer, err := drover.NodeGroupTemplateNodeInfo(ctx, &proto.NodeGroupTemplateNodeInfoRequest{Id: id})
		if code := status.Code(err); code == codes.NotFound || code == codes.Unimplemented {
			return "the template: " + err.Error(), nil
		}
		if err != nil {
			return "", err
		}
		return "", node.Unmarshal(answer.GetNodeBytes())
	})
	return node
}

const cinderZone = "topology.cinder.csi.openstack.org/zone"

// compare returns the differences between the node that joined and the template node that drover returned (CA-C99, C100, C101).
func compare(told, real *corev1.Node) (differences []string) {
	says := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	// A node's name and its host are its own labels. A CSI driver would set the last label, but none runs here.
	own := []string{corev1.LabelHostname, kubelet.HostLabel, cinderZone}
	for key, value := range told.Labels {
		if got, ok := real.Labels[key]; (!ok || got != value) && !slices.Contains(own, key) {
			says("label %s: told %q, the node has %q", key, value, got)
		}
	}
	for key, value := range real.Labels {
		if _, ok := told.Labels[key]; !ok && !slices.Contains(own, key) {
			says("label %s=%s of the node was not told", key, value)
		}
	}
	for _, taints := range [][2][]corev1.Taint{{told.Spec.Taints, real.Spec.Taints}, {real.Spec.Taints, told.Spec.Taints}} {
		for _, taint := range taints[0] {
			if !slices.ContainsFunc(taints[1], func(o corev1.Taint) bool { return o.MatchTaint(&taint) && o.Value == taint.Value }) {
				says("taint %s is on one of the two only", taint.ToString())
			}
		}
	}
	for name, has := range real.Status.Allocatable {
		promised := told.Status.Allocatable[name]
		if short := 1 - promised.AsApproximateFloat64()/has.AsApproximateFloat64(); !has.IsZero() && (short < 0 || short > 0.05) {
			says("allocatable %s: told %s, the node has %s", name, &promised, &has)
		}
	}
	for name, has := range real.Status.Capacity {
		promised := told.Status.Capacity[name]
		if off := promised.AsApproximateFloat64()/has.AsApproximateFloat64() - 1; !has.IsZero() && (off > 0.015 || off < -0.015) {
			says("capacity %s: told %s, the node has %s", name, &promised, &has)
		}
	}
	for name := range told.Status.Allocatable {
		if _, ok := real.Status.Allocatable[name]; !ok {
			says("%s is in the template and not on the node", name)
		}
	}
	return differences
}

// calls returns a client of drover's gRPC service, as the autoscaler has it.
func calls(t *testing.T, s *sandbox.Sandbox) proto.CloudProviderClient {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return proto.NewCloudProviderClient(conn)
}

// takenBack requests two nodes, and reverts the request as soon as the cloud has a resource for them.
func takenBack(t *testing.T, s *sandbox.Sandbox, group string) {
	drover, id, before := calls(t, s), "MachineDeployment/kube-system/"+group, s.Cloud.Leftovers()
	if _, err := drover.NodeGroupIncreaseSize(t.Context(), &proto.NodeGroupIncreaseSizeRequest{Id: id, Delta: 2}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) (string, error) {
		if len(s.Cloud.Leftovers().Ports) > len(before.Ports) {
			return "", nil
		}
		return "a port of the new servers", nil
	})
	if _, err := drover.NodeGroupDecreaseTargetSize(t.Context(), &proto.NodeGroupDecreaseTargetSizeRequest{Id: id, Delta: -2}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) (string, error) {
		var machines v1alpha1.MachineList
		if err := s.Client.List(ctx, &machines, client.MatchingLabels{"group": group}); err != nil {
			return "", err
		}
		left := s.Cloud.Leftovers()
		if len(machines.Items) != 1 || len(left.Servers) != len(before.Servers) || len(left.Ports) != len(before.Ports) || len(left.FloatingIPs) != len(before.FloatingIPs) {
			return fmt.Sprintf("one Machine, and in the cloud as before: %d, %+v", len(machines.Items), left), nil
		}
		return "", nil
	})
	onlyMember(t, s, group)
}
