package day

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// The times of the node lifecycle controller: how long after the last report a Node's condition becomes Unknown, and how long
// after that its pods are evicted.
const (
	monitorGrace = 40 * time.Second
	tolerance    = 5 * time.Minute
)

// nodeHealth holds the time of a Node's last report, and the time since which the Node has not been Ready.
type nodeHealth struct {
	reported, unready time.Time
}

// guestOf returns the guest on the server of a Node; nil when the server is gone.
func (w *World) guestOf(n *corev1.Node) *guest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guests[serverOf(n)]
}

// serverOf returns the ID of the server of a Node.
func serverOf(n *corev1.Node) string { return n.Spec.ProviderID[len("openstack:///"):] }

// healthOf returns the health of a Node. If the Node's kubelet works, it first records a report of the kubelet.
func (w *World) healthOf(n *corev1.Node) *nodeHealth {
	h := w.nodes[n.Name]
	if h == nil {
		h = &nodeHealth{reported: time.Now()}
		w.nodes[n.Name] = h
	}
	if g := w.guestOf(n); g != nil && g.runs() {
		h.reported = time.Now()
	}
	return h
}

// noteSilence moves the time of every Node's last report forward by one step. It is called while the API server is
// down, so that the outage makes no Node Unknown.
func (w *World) noteSilence() {
	for _, h := range w.nodes {
		h.reported = h.reported.Add(step)
	}
}

// stepNodes does what the node lifecycle controller does: it updates the Ready conditions and the unreachable taints of Nodes.
func (w *World) stepNodes(nodes []corev1.Node) {
	there := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		there[n.Name] = true
		h := w.healthOf(n)
		ready := v1alpha1.NodeReady(n).Status == corev1.ConditionTrue
		late := time.Since(h.reported) > monitorGrace
		switch {
		case ready && late:
			h.unready = time.Now()
			w.report(n, corev1.ConditionUnknown, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute})
		case !ready && !late:
			h.unready = time.Time{}
			w.report(n, corev1.ConditionTrue)
		}
	}
	for name := range w.nodes {
		if !there[name] {
			delete(w.nodes, name)
		}
	}
}

// report sets the Ready condition of a Node, and replaces its taint unreachable with the given taints. It keeps the conditions of other programs.
func (w *World) report(n *corev1.Node, status corev1.ConditionStatus, taints ...corev1.Taint) {
	n = n.DeepCopy()
	before := n.DeepCopy()
	n.Spec.Taints = append(slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable }), taints...)
	w.mayBeGone(w.Admin.Patch(w.ctx, n, client.MergeFrom(before)))
	before = n.DeepCopy()
	others := slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	n.Status.Conditions = append(others, corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.Now()})
	w.mayBeGone(w.Admin.Status().Patch(w.ctx, n, client.MergeFrom(before)))
}

// mayBeGone fails the test on errors other than not found.
func (w *World) mayBeGone(err error) {
	w.Helper()
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
}

// isUnreachable reports whether the pods of a Node are to be evicted because its kubelet does not report.
func (w *World) isUnreachable(node string) bool {
	h := w.nodes[node]
	return h != nil && !h.unready.IsZero() && time.Since(h.unready) > tolerance
}
