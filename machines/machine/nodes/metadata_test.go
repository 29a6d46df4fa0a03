package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const startup = "node.example/not-ready"

func taint(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func machineWith(labels map[string]string, taints ...corev1.Taint) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"},
		Spec:       v1alpha1.MachineSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: labels}, Taints: taints},
	}
}

// synced is a Node, together with the labels, annotations and taints that its Machine's status records.
type synced struct {
	corev1.Node
	record v1alpha1.NodeMarks
}

// sync applies the Machine's template to the Node, and removes the startup taint if start is true. The test fails if the Node
// changes while changes is false, or does not change while changes is true.
func (n *synced) sync(t *testing.T, m *v1alpha1.Machine, start, changes bool) {
	t.Helper()
	key := ""
	if start && !n.record.Started {
		key = startup
	}
	want := Wanted(m, m.Spec.Metadata.Labels, "")
	if changed := Apply(&n.Node, want, n.record, key); changed != changes {
		t.Fatalf("changed %v, want %v", changed, changes)
	}
	n.record = *Recorded(want)
	n.record.Started = start
}

func TestTheSyncOfLabelsAndTaintsToANode(t *testing.T) {
	t.Run("sets the template's labels and taints, and changes nothing at the next sync (MC-55)", func(t *testing.T) {
		n, m := &synced{}, machineWith(map[string]string{"a": "1"}, taint("gpu", "yes"))
		n.sync(t, m, false, true)
		n.sync(t, m, false, false)
		if n.Labels["a"] != "1" || n.Annotations[v1alpha1.AnnotationOwnedBy] != "u" || n.Annotations[v1alpha1.AnnotationNodeMachine] != "ns/m" || len(n.Spec.Taints) != 1 {
			t.Errorf("node: %+v", n)
		}
	})
	t.Run("updates labels and taints that drover has set when the template changes them, and removes those that the template has lost (MC-55, CAPI-48)", func(t *testing.T) {
		n := &synced{}
		n.sync(t, machineWith(map[string]string{"a": "1", "b": "1"}, taint("gpu", "yes"), taint("old", "")), false, true)
		n.sync(t, machineWith(map[string]string{"a": "2"}, taint("gpu", "no")), false, true)
		if diff := cmp.Diff(map[string]string{"a": "2", v1alpha1.LabelManaged: "true"}, n.Labels); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]corev1.Taint{taint("gpu", "no")}, n.Spec.Taints); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("keeps labels and taints that other programs have set (CA-C81)", func(t *testing.T) {
		autoscaler := taint("ToBeDeletedByClusterAutoscaler", "1700000000")
		soft := corev1.Taint{Key: "DeletionCandidateOfClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectPreferNoSchedule}
		n := &synced{Node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "theirs", "x": "y"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{autoscaler, soft}}}}
		n.sync(t, machineWith(map[string]string{"a": "ours"}, taint("gpu", "yes")), false, true)
		n.sync(t, machineWith(nil), false, true)
		if diff := cmp.Diff(map[string]string{"a": "theirs", "x": "y", v1alpha1.LabelManaged: "true"}, n.Labels); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]corev1.Taint{autoscaler, soft}, n.Spec.Taints); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("keeps a label whose value a user has changed, even when the template loses the label", func(t *testing.T) {
		n := &synced{}
		n.sync(t, machineWith(map[string]string{"a": "1"}), false, true)
		n.Labels["a"] = "theirs"
		n.sync(t, machineWith(map[string]string{"a": "2"}), false, false)
		n.sync(t, machineWith(nil), false, false)
		if n.Labels["a"] != "theirs" {
			t.Errorf("labels: %v", n.Labels)
		}
	})
	t.Run("removes labels and taints that the template has lost, even when the kubelet set them at registration", func(t *testing.T) {
		n := &synced{Node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint("gpu", "yes")}}}}
		n.sync(t, machineWith(map[string]string{"a": "1"}, taint("gpu", "yes")), false, true)
		n.sync(t, machineWith(nil), false, true)
		if _, there := n.Labels["a"]; there || len(n.Spec.Taints) != 0 {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
	})
	t.Run("removes the startup taint when the Node has started, and keeps a startup taint that is set later (MC-56)", func(t *testing.T) {
		n, m := &synced{Node: corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint(startup, ""), taint("x", "")}}}}, machineWith(nil)
		n.sync(t, m, false, true)
		if len(n.Spec.Taints) != 2 {
			t.Errorf("taints before readiness: %v", n.Spec.Taints)
		}
		n.sync(t, m, true, true)
		if diff := cmp.Diff([]corev1.Taint{taint("x", "")}, n.Spec.Taints); diff != "" {
			t.Error(diff)
		}
		n.Spec.Taints = append(n.Spec.Taints, taint(startup, "again"))
		n.sync(t, m, true, false)
	})
	t.Run("sets the provider ID of a Node that has none, unless the cloud-controller-manager will set it (F-133)", func(t *testing.T) {
		for _, tt := range []struct{ had, taint, want string }{
			{"", "other", "openstack:///s"}, {"", v1alpha1.TaintUninitialized, ""}, {"kubermatic://openstack/u", "other", "kubermatic://openstack/u"},
		} {
			n := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: tt.had, Taints: []corev1.Taint{taint(tt.taint, "")}}}
			if changed := Identify(n, "openstack:///s"); n.Spec.ProviderID != tt.want || changed != (tt.want != tt.had) {
				t.Errorf("with the provider ID %q and the taint %s: provider ID %q, changed %v", tt.had, tt.taint, n.Spec.ProviderID, changed)
			}
		}
	})
	t.Run("sets the label of the physical host if it is wanted, updates it after a migration, and removes it when it is no longer wanted (F-124)", func(t *testing.T) {
		n, m := &synced{}, machineWith(nil)
		for _, host := range []string{"host-1", "host-2", ""} {
			Apply(&n.Node, Wanted(m, nil, host), n.record, "")
			if n.Labels[v1alpha1.LabelPhysicalHost] != host {
				t.Errorf("labels %v, want the host %s", n.Labels, host)
			}
		}
	})
	t.Run("sets new labels and removes nothing when the record of the labels and taints that drover set is lost (F-6)", func(t *testing.T) {
		n := &synced{}
		n.sync(t, machineWith(map[string]string{"a": "1"}, taint("gpu", "yes")), false, true)
		n.record = v1alpha1.NodeMarks{}
		n.sync(t, machineWith(map[string]string{"b": "1"}), false, true)
		if n.Labels["a"] != "1" || n.Labels["b"] != "1" || len(n.Spec.Taints) != 1 {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
	})
	t.Run("keeps a label or taint of the Node whose value is not the value that drover recorded (F-6)", func(t *testing.T) {
		n := &synced{}
		n.Labels = map[string]string{"a": "theirs"}
		n.Spec.Taints = []corev1.Taint{taint("gpu", "theirs")}
		n.record = v1alpha1.NodeMarks{Labels: map[string]string{"a": "1"}, Taints: map[string]string{"gpu:NoSchedule": "yes"}}
		n.sync(t, machineWith(nil), false, true)
		if n.Labels["a"] != "theirs" || len(n.Spec.Taints) != 1 {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
	})
	t.Run("replaces the label of the owner on the Node, as machine-controller sets it, with the annotation (F-124)", func(t *testing.T) {
		n := &synced{Node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelOwnedBy: "other"}, Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: "ns/other"}}}}
		n.sync(t, machineWith(nil), false, true)
		if _, labelled := n.Labels[v1alpha1.LabelOwnedBy]; labelled || n.Annotations[v1alpha1.AnnotationOwnedBy] != "u" || n.Annotations[v1alpha1.AnnotationNodeMachine] != "ns/m" {
			t.Errorf("node: %+v", n.ObjectMeta)
		}
	})
}

func TestTheLabelAndTheTaintOfANodeWithGPUs(t *testing.T) {
	soft := TaintKey(corev1.Taint{Key: v1alpha1.TaintAwaitsGPU, Effect: corev1.TaintEffectPreferNoSchedule})
	for name, c := range map[string]struct {
		labels map[string]string
		has    corev1.ResourceName
		amount string
		label  string
		waits  bool
	}{
		"a Node with the label and no GPU yet has the taint that lets the autoscaler wait, and no label of drover's (F-125)": {map[string]string{"accelerator": "a100"}, "nvidia.com/gpu", "0", "", true},
		"a Node with the label and GPUs has drover's label with their type (F-125)":                                          {map[string]string{"accelerator": "a100"}, "amd.com/gpu", "2", "a100", false},
		"a Node whose GPUs have a name that the autoscaler does not know has neither, so that it counts as ready (F-126)":    {map[string]string{"accelerator": "a100"}, "nvidia.com/mig-1g.5gb", "7", "", false},
		"a Node whose GPUs have the name of --gpu-resource has neither (F-126)":                                              {map[string]string{"accelerator": "a100"}, "example.com/shared", "7", "", false},
		"a Node without the label has neither (F-125)":                                                                       {nil, "nvidia.com/gpu", "2", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{c.has: resource.MustParse(c.amount)}}}
			want := v1alpha1.NodeMarks{Labels: map[string]string{}, Taints: map[string]string{}}
			MarkGPUs(want, node, "accelerator", "example.com/shared")
			if _, waits := want.Taints[soft]; want.Labels[v1alpha1.LabelGPU] != c.label || waits != c.waits {
				t.Errorf("labels %v, taints %v", want.Labels, want.Taints)
			}
		})
	}
	t.Run("drover's label is removed when the Node no longer reports GPUs (F-125)", func(t *testing.T) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelGPU: "a100"}}}
		if !Apply(node, v1alpha1.NodeMarks{}, v1alpha1.NodeMarks{}, "") || len(node.Labels) > 0 {
			t.Errorf("labels %v", node.Labels)
		}
	})
}

func TestTheNodeOfAMachineLosesTheTaintOfANodeThatOutlivesItsMachine(t *testing.T) {
	t.Run("the taint machine-gone is removed, and the taints of other programs stay (F-97)", func(t *testing.T) {
		other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: v1alpha1.TaintMachineGone, Effect: corev1.TaintEffectNoExecute}, other}}}
		if !Apply(node, v1alpha1.NodeMarks{}, v1alpha1.NodeMarks{}, "") || len(node.Spec.Taints) != 1 || node.Spec.Taints[0] != other {
			t.Errorf("taints %v", node.Spec.Taints)
		}
	})
}
