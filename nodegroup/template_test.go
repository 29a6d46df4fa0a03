package nodegroup

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func nodeTemplate() *v1alpha1.NodeTemplate {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("7Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("40Gi"),
	}
	labels := map[string]string{}
	for _, key := range []string{"f", "a", "d", "b", "e", "c"} {
		labels[key] = key
	}
	labels[corev1.LabelOSStable], labels[corev1.LabelArchStable] = "linux", "arm64"
	return &v1alpha1.NodeTemplate{Capacity: list, Allocatable: list, Labels: labels,
		Taints: []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}}
}

func TestTemplateNode(t *testing.T) {
	w := newWorld()
	p := w.pool("a", 0, 0, 5)
	t.Run("CA-C98 an unknown template is Unimplemented, never empty; CA-C23 the group is listed", func(t *testing.T) {
		b := newBench(t, w)
		raw, err := b.groups.TemplateNode(p.id())
		wantKind(t, err, Unimplemented)
		if raw != nil || len(b.groups.List()) != 1 {
			t.Errorf("the bytes are %q, the groups %v", raw, b.groups.List())
		}
	})
	t.Run("CA-C98 one without memory is unknown", func(t *testing.T) {
		p.deployment.Status.NodeTemplate = nodeTemplate()
		delete(p.deployment.Status.NodeTemplate.Allocatable, corev1.ResourceMemory)
		_, err := newBench(t, w).groups.TemplateNode(p.id())
		wantKind(t, err, Unimplemented)
	})
	p.deployment.Status.NodeTemplate = nodeTemplate()
	raw, err := newBench(t, w).groups.TemplateNode(p.id())
	if err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := node.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	t.Run("CA-C97 it has a name, resources, and is Ready", func(t *testing.T) {
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if node.Name == "" || !ready || node.Status.Allocatable.Cpu().Value() != 4 || node.Status.Capacity.Pods().Value() != 110 {
			t.Errorf("the node is %+v", node)
		}
	})
	t.Run("CA-C100 CA-C101 labels, host name and taints are there", func(t *testing.T) {
		if node.Labels["f"] != "f" || node.Labels[corev1.LabelHostname] != node.Name || node.Status.NodeInfo.Architecture != "arm64" ||
			len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "dedicated" {
			t.Errorf("the node is %+v", node)
		}
	})
	t.Run("CA-C102 the group's id is an annotation and a provider ID, no label", func(t *testing.T) {
		if slices.Contains(slices.Collect(maps.Values(node.Labels)), p.id()) || node.Annotations[v1alpha1.AnnotationNodeGroup] != p.id() {
			t.Errorf("labels are %v, annotations %v", node.Labels, node.Annotations)
		}
		if g := snapshotOf(t, w).groupOf(Node{Name: "template-node-for-a-1", ProviderID: node.Spec.ProviderID}); g == nil || g.id != p.id() {
			t.Errorf("CA-C29 the provider ID %s belongs to %v", node.Spec.ProviderID, g)
		}
	})
	t.Run("CA-C104 the same template gives the same bytes, at most 16 KiB", func(t *testing.T) {
		for range 20 {
			p.deployment.Status.NodeTemplate = nodeTemplate()
			if again := templateNode(deploymentOwner(p.deployment)); !bytes.Equal(raw, again) || len(raw) > 16<<10 {
				t.Fatalf("%d bytes, then %d others", len(raw), len(again))
			}
		}
	})
	t.Run("CA-C103 another template shows at once", func(t *testing.T) {
		p.deployment.Status.NodeTemplate.Labels["f"] = "g"
		if bytes.Equal(raw, templateNode(deploymentOwner(p.deployment))) {
			t.Error("the bytes are the same")
		}
	})
}

// TestEverySnapshotIsSound makes worlds at random, events out of order included: sets, Machines and Nodes that are
// missing, doubled, going or listed.
func TestEverySnapshotIsSound(t *testing.T) {
	t.Run("CA-C30 CA-C38 CA-C115 whatever is missing, doubled or late", func(t *testing.T) {
		rapid.Check(t, func(r *rapid.T) {
			w := newWorld()
			var pools []*pool
			for i := range rapid.IntRange(1, 3).Draw(r, "pools") {
				p := w.pool(string(rune('a'+i)), rapid.Int32Range(0, 6).Draw(r, "replicas"), 0, rapid.Int32Range(0, 6).Draw(r, "max"))
				pools = append(pools, p)
				randomMachines(r, p)
			}
			if rapid.Bool().Draw(r, "a set is not seen yet") {
				w.Sets = w.Sets[1:]
			}
			if len(w.Nodes) > 0 && rapid.Bool().Draw(r, "a node is doubled") {
				twin := w.Nodes[0].DeepCopy()
				twin.Name += "-twin"
				w.Nodes = append(w.Nodes, twin)
			}
			s := build(w, Discovery{})
			if err := soundness(s); err != nil {
				r.Fatalf("CA-C115 %v", err)
			}
			v := newView(s, noon, nil)
			for _, n := range w.Nodes {
				if g := s.groupOf(asked(n)); g != nil && s.groups[g.id] == nil {
					r.Fatalf("CA-C30 node %s belongs to %s, which is not there", n.Name, g.id)
				}
			}
			for _, p := range pools {
				if e := v.byID[p.id()]; e != nil && e.target != *p.deployment.Spec.Replicas {
					r.Fatalf("CA-C38 group %s has target %d, replicas are %d", e.id, e.target, *p.deployment.Spec.Replicas)
				}
			}
		})
	})
}

func randomMachines(r *rapid.T, p *pool) {
	for i := range rapid.IntRange(0, 6).Draw(r, "machines") {
		name := p.deployment.Name + "-" + string(rune('0'+i))
		var change []func(*v1alpha1.Machine)
		if rapid.Bool().Draw(r, "deleting") {
			change = append(change, deleting)
		}
		if rapid.Bool().Draw(r, "failed") {
			change = append(change, failed(fault.CodeNoValidHost, "no host"))
		}
		var m *v1alpha1.Machine
		if rapid.Bool().Draw(r, "registered") {
			m, _ = p.node(name, change...)
			if rapid.Bool().Draw(r, "same server as another") {
				p.world.Nodes[len(p.world.Nodes)-1].Spec.ProviderID = providerID(p.deployment.Name + "-0")
			}
		} else {
			m = p.machine(name, change...)
		}
		if rapid.Bool().Draw(r, "listed") {
			p.remove(m)
		}
		if rapid.IntRange(0, 3).Draw(r, "template changes") == 0 {
			p.set = p.revision(i + 2)
		}
	}
}
