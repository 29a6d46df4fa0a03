package nodegroup

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestTheTemplateNodeOfAGroup(t *testing.T) {
	w := pools.NewWorld()
	p := w.Pool("a", 0, 0, 5)
	t.Run("TemplateNode returns Unimplemented for a group without a template, and the group stays listed (CA-C98, CA-C23)", func(t *testing.T) {
		b := newBench(t, w)
		raw, err := b.groups.TemplateNode(p.ID())
		wantKind(t, err, model.Unimplemented)
		if raw != nil || len(b.groups.List()) != 1 {
			t.Errorf("the bytes are %q, the groups %v", raw, b.groups.List())
		}
	})
	t.Run("TemplateNode returns Unimplemented for a template without memory (CA-C98)", func(t *testing.T) {
		p.Deployment.Status.NodeTemplate = pools.NodeTemplate()
		delete(p.Deployment.Status.NodeTemplate.Allocatable, corev1.ResourceMemory)
		_, err := newBench(t, w).groups.TemplateNode(p.ID())
		wantKind(t, err, model.Unimplemented)
	})
	p.Deployment.Status.NodeTemplate = pools.NodeTemplate()
	raw, err := newBench(t, w).groups.TemplateNode(p.ID())
	if err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := node.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	t.Run("the template node has a name and resources, and is Ready (CA-C97)", func(t *testing.T) {
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if node.Name == "" || !ready || node.Status.Allocatable.Cpu().Value() != 4 || node.Status.Capacity.Pods().Value() != 110 {
			t.Errorf("the node is %+v", node)
		}
	})
	t.Run("the template node has the template's labels and taints, and its own name in the host name label (CA-C100, CA-C101)", func(t *testing.T) {
		if node.Labels["f"] != "f" || node.Labels[corev1.LabelHostname] != node.Name || node.Status.NodeInfo.Architecture != "arm64" ||
			len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "dedicated" {
			t.Errorf("the node is %+v", node)
		}
	})
	t.Run("the template node has the group's id in an annotation and in its provider ID, but in no label (CA-C102)", func(t *testing.T) {
		if slices.Contains(slices.Collect(maps.Values(node.Labels)), p.ID()) || node.Annotations[v1alpha1.AnnotationNodeGroup] != p.ID() {
			t.Errorf("labels are %v, annotations %v", node.Labels, node.Annotations)
		}
		if g, ok := newBench(t, w).groups.ForNode(membership.Node{Name: "template-node-for-a-1", ProviderID: node.Spec.ProviderID}); !ok || g.ID != p.ID() {
			t.Errorf("CA-C29 the provider ID %s belongs to %v", node.Spec.ProviderID, g)
		}
	})
	t.Run("the template node is encoded to the same bytes each time, at most 16 KiB (CA-C104)", func(t *testing.T) {
		for range 20 {
			p.Deployment.Status.NodeTemplate = pools.NodeTemplate()
			if again, _ := newBench(t, w).groups.TemplateNode(p.ID()); !bytes.Equal(raw, again) || len(raw) > 16<<10 {
				t.Fatalf("%d bytes, then %d others", len(raw), len(again))
			}
		}
	})
	t.Run("the template node changes at once when the template changes (CA-C103)", func(t *testing.T) {
		p.Deployment.Status.NodeTemplate.Labels["f"] = "g"
		if again, _ := newBench(t, w).groups.TemplateNode(p.ID()); bytes.Equal(raw, again) {
			t.Error("the bytes are the same")
		}
	})
}
