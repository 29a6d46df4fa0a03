package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
		if n.Labels["a"] != "1" || n.Labels[v1alpha1.LabelOwnedBy] != "u" || n.Annotations[v1alpha1.AnnotationNodeMachine] != "ns/m" || len(n.Spec.Taints) != 1 {
			t.Errorf("node: %+v", n)
		}
	})
	t.Run("updates labels and taints that drover has set when the template changes them, and removes those that the template has lost (MC-55, CAPI-48)", func(t *testing.T) {
		n := &synced{}
		n.sync(t, machineWith(map[string]string{"a": "1", "b": "1"}, taint("gpu", "yes"), taint("old", "")), false, true)
		n.sync(t, machineWith(map[string]string{"a": "2"}, taint("gpu", "no")), false, true)
		if diff := cmp.Diff(map[string]string{"a": "2", v1alpha1.LabelOwnedBy: "u"}, n.Labels); diff != "" {
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
		if diff := cmp.Diff(map[string]string{"a": "theirs", "x": "y", v1alpha1.LabelOwnedBy: "u"}, n.Labels); diff != "" {
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
	t.Run("sets the label of the physical host, and updates it after a migration", func(t *testing.T) {
		n, m := &synced{}, machineWith(nil)
		for _, host := range []string{"host-1", "host-2"} {
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
	t.Run("replaces an owner label on the Node that names another Machine", func(t *testing.T) {
		n := &synced{Node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelOwnedBy: "other"}, Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: "ns/other"}}}}
		n.sync(t, machineWith(nil), false, true)
		if n.Labels[v1alpha1.LabelOwnedBy] != "u" || n.Annotations[v1alpha1.AnnotationNodeMachine] != "ns/m" {
			t.Errorf("node: %+v", n.ObjectMeta)
		}
	})
}
