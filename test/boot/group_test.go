//go:build boot

package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

// group is a node group that a test creates.
type group struct {
	name, kubelet, system string
	// cloud holds the fields of the group's cloudProviderSpec.
	cloud map[string]any
}

// inSimulatedCloud returns the cloudProviderSpec of a server with that image.
func inSimulatedCloud(image string) map[string]any {
	return map[string]any{
		"availabilityZone": openstack.MetaKubeZone, "flavor": flavor, "image": image, "network": openstack.MetaKubeNetwork,
		"subnet": openstack.MetaKubeSubnet, "region": openstack.MetaKubeRegion, "securityGroups": []string{openstack.MetaKubeSecurityGroup},
	}
}

// templateLabel is a label of the Machine template that a node must get.
const templateLabel = "example.com/team"

// create creates the MachineDeployment of a group, with one replica.
func (h *harness) create(g group) {
	h.t.Helper()
	d, err := scenario.Deployment(g.kubelet)
	if err != nil {
		h.t.Fatal(err)
	}
	value, err := json.Marshal(map[string]any{"cloudProvider": "openstack", "cloudProviderSpec": g.cloud, "operatingSystem": g.system, "operatingSystemSpec": map[string]any{}})
	if err != nil {
		h.t.Fatal(err)
	}
	labels := map[string]string{"group": g.name}
	d.Name, d.Spec.Replicas = g.name, ptr.To[int32](1)
	d.Spec.Selector, d.Spec.Template.Metadata.Labels = metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec.Metadata.Labels = map[string]string{templateLabel: "blue"}
	d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: value}
	if err := h.Client.Create(h.t.Context(), d); err != nil {
		h.t.Fatal(err)
	}
	h.logf("group %s: created with one replica", g.name)
}

// machine returns the group's Machine, or nil when it has none.
func (h *harness) machine(ctx context.Context, g group) (*v1alpha1.Machine, error) {
	var machines v1alpha1.MachineList
	if err := h.Client.List(ctx, &machines, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"group": g.name}); err != nil || len(machines.Items) == 0 {
		return nil, err
	}
	return &machines.Items[0], nil
}

// condition returns the condition of type kind, or an empty one when the Machine has none.
func condition(m *v1alpha1.Machine, kind string) v1alpha1.MachineCondition {
	for _, c := range m.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1alpha1.MachineCondition{}
}

// awaitUsableNode waits until the group has a Node that accepts pods, and returns it.
func (h *harness) awaitUsableNode(g group) (node *corev1.Node) {
	h.t.Helper()
	h.eventually(func(ctx context.Context) (string, error) {
		m, err := h.machine(ctx, g)
		if err != nil || m == nil {
			return "a Machine", err
		}
		node = &corev1.Node{}
		err = h.Client.Get(ctx, client.ObjectKey{Name: m.ServerName()}, node)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return "", err
		case err != nil:
			return "the node of a Machine that is " + string(sandbox.PhaseOf(m)), nil
		case !sandbox.UsableNode(node) || m.Status.NodeRef == nil:
			return "a usable node", nil
		}
		return "", nil
	})
	h.logf("node %s is usable", node.Name)
	return node
}

// conditions returns the conditions of all Machines, one per line.
func (h *harness) conditions() string {
	ctx := context.WithoutCancel(h.t.Context())
	var machines v1alpha1.MachineList
	if err := h.Client.List(ctx, &machines); err != nil {
		return ""
	}
	var out strings.Builder
	for i := range machines.Items {
		for _, c := range machines.Items[i].Status.Conditions {
			_, _ = fmt.Fprintf(&out, "\n  %s %s=%s %s: %s", machines.Items[i].Name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return out.String()
}
