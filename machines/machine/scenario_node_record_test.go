package machine_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// restricted is a label that a kubelet cannot change on its own Node.
const restricted = "node-restriction.kubernetes.io/tier"

// templated sets a label, an annotation and a taint in the Machine's template for its Node.
func templated(m *v1alpha1.Machine) {
	owned(m)
	m.Spec.Metadata = v1alpha1.EmbeddedMetadata{Labels: map[string]string{"team": "blue"}, Annotations: map[string]string{"note": "x"}}
	m.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
}

// counts returns the number of patches of Machines and of Nodes.
func (b *bench) counts() (machines, nodes int) {
	return b.patches.count["*v1alpha1.Machine"], b.patches.count["*v1.Node"]
}

// relabel sets the labels in the Machine's template, as a user does.
func (b *bench) relabel(labels map[string]string) {
	b.t.Helper()
	m := b.read()
	m.Spec.Metadata.Labels = labels
	b.update(m)
}

func TestDroverIgnoresTheNodeAnnotationInWhichOlderVersionsKeptTheirRecord(t *testing.T) {
	forged := `{"labels":{"` + restricted + `":"secret"},"annotations":{"theirs":"1"},"taints":{"quarantine:NoExecute":""},"started":true}`
	t.Run("a forged record does not make drover remove an administrator's labels, annotations and taints from the Node (F-6)", func(t *testing.T) {
		b := joined(t, templated)
		n := b.node()
		n.Labels[restricted] = "secret"
		n.Annotations["theirs"], n.Annotations[v1alpha1.AnnotationNodeSynced] = "1", forged
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "quarantine", Effect: corev1.TaintEffectNoExecute})
		b.update(n)
		b.relabel(map[string]string{"team": "green"})
		b.shown()
		n = b.node()
		if n.Labels[restricted] != "secret" || n.Annotations["theirs"] != "1" || !hasTaint(n, "quarantine") || n.Labels["team"] != "green" {
			t.Errorf("labels %v, annotations %v, taints %v", n.Labels, n.Annotations, n.Spec.Taints)
		}
	})
	t.Run("a Machine is shown as starting although its Node has a forged record that the first start is complete (F-6)", func(t *testing.T) {
		b := starting(t, startup)
		n := b.nodeOf()
		n.Annotations = map[string]string{v1alpha1.AnnotationNodeSynced: forged}
		n.Status.Conditions[0].Status = corev1.ConditionFalse
		n.Spec.Taints = []corev1.Taint{taint(startup, corev1.TaintEffectNoSchedule)}
		b.create(n)
		b.pass()
		b.isStarting("the Node is not Ready")
	})
	t.Run("drover's next patch of the Node removes the record that an older version of drover wrote (F-6)", func(t *testing.T) {
		b := joined(t, templated)
		n := b.node()
		n.Annotations[v1alpha1.AnnotationNodeSynced] = forged
		b.update(n)
		_, before := b.counts()
		b.shown()
		if _, nodes := b.counts(); nodes != before {
			t.Errorf("%d patches of the Node, then %d", before, nodes)
		}
		b.relabel(map[string]string{"team": "green"})
		b.pass()
		if left, there := b.node().Annotations[v1alpha1.AnnotationNodeSynced]; there {
			t.Errorf("the record still exists: %s", left)
		}
	})
}

func TestAMachinesStatusRecordsWhatDroverSetsOnItsNodeAndWhetherTheNodeHasStarted(t *testing.T) {
	t.Run("the record is written together with the provider ID, before the Node registers (F-6)", func(t *testing.T) {
		b := newBench(t, templated)
		b.pass()
		m := b.read()
		r := m.Status.NodeMarks
		if m.Spec.ProviderID == nil || r == nil || r.Labels["team"] != "blue" || r.Annotations["note"] != "x" || r.Taints["gpu:NoSchedule"] != "yes" || r.Started {
			t.Errorf("%+v", r)
		}
		if machines, _ := b.counts(); machines != 2 {
			t.Errorf("%d writes of the Machine, want 2: finalizers and provider ID", machines)
		}
	})
	t.Run("the record shows that the Node has started, and omits the labels and annotations that drover sets on every Node (F-6)", func(t *testing.T) {
		r := joined(t, templated).read().Status.NodeMarks
		if !r.Started || r.Labels[v1alpha1.LabelManaged] != "" || r.Annotations[v1alpha1.AnnotationOwnedBy] != "" || r.Annotations[v1alpha1.AnnotationNodeMachine] != "" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a new label is recorded before the Node gets it, so that drover can remove it later even after a crash (F-6)", func(t *testing.T) {
		b := joined(t, templated)
		b.relabel(map[string]string{"team": "blue", "new": "1"})
		recorded := ""
		b.patches.before = func(o client.Object) error {
			if _, ok := o.(*corev1.Node); ok {
				recorded = b.read().Status.NodeMarks.Labels["new"]
			}
			return nil
		}
		machines, nodes := b.counts()
		b.pass()
		if m, n := b.counts(); recorded != "1" || b.node().Labels["new"] != "1" || m-machines != 1 || n-nodes != 1 {
			t.Errorf("recorded %q, labels %v; %d writes of the Machine and %d of the Node", recorded, b.node().Labels, m-machines, n-nodes)
		}
	})
	t.Run("the record keeps an old label until it is removed from the Node, even when a write of the Node fails (F-6)", func(t *testing.T) {
		b := joined(t, templated)
		b.relabel(map[string]string{"other": "1"})
		b.patches.before = func(o client.Object) error {
			if _, ok := o.(*corev1.Node); ok {
				return errors.New("the API server is out of reach")
			}
			return nil
		}
		if _, err := b.machine.Reconcile(t.Context(), ctrl.Request{NamespacedName: b.key}); err == nil {
			t.Fatal("the failure returned no error")
		}
		if r := b.read().Status.NodeMarks; r.Labels["team"] != "blue" || r.Labels["other"] != "1" {
			t.Errorf("%+v", r)
		}
		b.patches.before = nil
		b.restart()
		b.pass()
		n, r := b.node(), b.read().Status.NodeMarks
		if n.Labels["team"] != "" || n.Labels["other"] != "1" || r.Labels["team"] != "" {
			t.Errorf("labels %v, record %+v", n.Labels, r)
		}
	})
	t.Run("a record that a client removed is restored with one write, and nothing is removed from the Node (F-6)", func(t *testing.T) {
		b := joined(t, templated)
		machines, nodes := b.counts()
		m := b.read()
		m.Status.NodeMarks = nil
		m.Spec.Metadata.Labels = nil
		b.update(m)
		b.restart()
		b.pass()
		n := b.node()
		if m, nn := b.counts(); n.Labels["team"] != "blue" || !isReady(b.read()) || *b.read().Status.Phase != v1alpha1.PhaseRunning || m-machines != 1 || nn != nodes {
			t.Errorf("labels %v, %+v; %d writes of the Machine and %d of the Node", n.Labels, b.read().Status, m-machines, nn-nodes)
		}
	})
	t.Run("after the Node was deleted and has registered again, the record shows that the Node has not started (F-6)", func(t *testing.T) {
		b := starting(t, startup)
		b.registers(corev1.ConditionTrue)
		b.pass()
		b.hasStarted()
		b.remove(b.node())
		b.wait(time.Minute)
		b.registers(corev1.ConditionFalse)
		b.shown()
		b.isStarting()
		if b.read().Status.NodeMarks.Started {
			t.Error("the first start counts as complete")
		}
	})
	t.Run("the record of a Machine from an older version of drover is added without a write of the Node (F-6)", func(t *testing.T) {
		b := joined(t, templated)
		m := b.read()
		m.Status.NodeMarks, m.Status.Phase = nil, ptr.To(v1alpha1.PhaseRunning)
		b.update(m)
		n := b.node()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationNodeSynced, `{"labels":{"team":"blue"},"started":true}`)
		b.update(n)
		_, nodes := b.counts()
		b.pass()
		if r := b.read().Status.NodeMarks; r == nil || !r.Started || r.Labels["team"] != "blue" {
			t.Errorf("%+v", r)
		}
		if _, now := b.counts(); now != nodes {
			t.Errorf("%d patches of the Node, then %d", nodes, now)
		}
	})
}
