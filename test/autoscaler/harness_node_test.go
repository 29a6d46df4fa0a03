package autoscaler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/nodes"
)

// cloudController is the model of a cloud-controller-manager. It initializes a Node when delay has passed since the
// Node's registration, unless dead is true.
type cloudController struct {
	delay time.Duration
	dead  bool
}

// progress is how far a registered Node has started.
type progress struct {
	// id is the Node's provider ID.
	id string
	// ready is true when the kubelet reports Ready, initialized when the cloud-controller-manager has removed the taint
	// uninitialized, and started when the Machine controller has removed the startup taint.
	ready, initialized, started bool
}

// join registers the node of a Machine. The node is Ready immediately if its pool has no settle time.
func (w *world) join(m *v1alpha1.Machine, s *machine) {
	s.node, s.joined = true, time.Now()
	marks := nodes.Wanted(m, s.pool.labels, "")
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: marks.Labels, Annotations: marks.Annotations},
		Spec: corev1.NodeSpec{ProviderID: s.pool.providerID(string(m.UID), 0), Taints: []corev1.Taint{
			{Key: startupTaint, Effect: corev1.TaintEffectNoSchedule},
			{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Capacity: size2x8(), Allocatable: size2x8()},
	}
	s.done.id = n.Spec.ProviderID
	w.must(w.admin.Create(w.ctx, n))
	w.change(m, func() {
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
		m.Status.Phase = ptr.To(v1alpha1.PhaseJoined)
		m.Status.Conditions = readyIs(corev1.ConditionFalse, "NodeStarting")
	})
	w.settle(m, s)
}

func readyIs(status corev1.ConditionStatus, reason string) []v1alpha1.MachineCondition {
	return []v1alpha1.MachineCondition{{
		Type: v1alpha1.ConditionReady, Status: status, Reason: reason, LastTransitionTime: ptr.To(metav1.Now()),
	}}
}

// settle takes all steps of a Node's start that are due: it sets the provider ID and Ready, initializes the Node, and
// removes the startup taint.
func (w *world) settle(m *v1alpha1.Machine, s *machine) {
	done, age := s.done, time.Since(s.joined)
	done.id = s.pool.providerID(string(m.UID), age)
	done.ready = age >= s.pool.settle
	done.initialized = done.initialized || !w.controller.dead && age >= w.controller.delay
	done.started = done.started || done.ready && (done.initialized || w.startsEarly)
	before := s.done
	if done == before {
		return
	}
	s.done = done
	n := &corev1.Node{}
	w.must(w.admin.Get(w.ctx, client.ObjectKey{Name: m.Name}, n))
	was := n.DeepCopy()
	n.Spec.ProviderID = done.id
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady && done.ready || t.Key == taintUninitialized && done.initialized ||
			t.Key == startupTaint && done.started
	})
	w.must(w.admin.Patch(w.ctx, n, client.MergeFrom(was)))
	if done.ready && !before.ready {
		w.report(n, corev1.ConditionTrue)
	}
	if done.started && !before.started {
		w.change(m, func() {
			m.Status.Phase = ptr.To(v1alpha1.PhaseRunning)
			m.Status.Conditions = readyIs(corev1.ConditionTrue, "NodeReady")
		})
	}
}

// report sets the Ready condition of a Node, as a kubelet or the node lifecycle controller does.
func (w *world) report(n *corev1.Node, ready corev1.ConditionStatus) {
	before := n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.Now()}}
	w.must(w.admin.Status().Patch(w.ctx, n, client.MergeFrom(before)))
}

// loseContact sets the Ready conditions of a started Node and of its Machine to False.
func (w *world) loseContact(m *v1alpha1.Machine) {
	n := &corev1.Node{}
	w.must(w.admin.Get(w.ctx, client.ObjectKey{Name: m.Name}, n))
	before := n.DeepCopy()
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	w.must(w.admin.Patch(w.ctx, n, client.MergeFrom(before)))
	w.report(n, corev1.ConditionFalse)
	w.change(m, func() { m.Status.Conditions = readyIs(corev1.ConditionFalse, "NodeNotReady") })
}
