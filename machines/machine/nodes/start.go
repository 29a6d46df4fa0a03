package nodes

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// startTaints are the keys of the taints that Kubernetes puts on a Node that cannot run pods yet.
var startTaints = []string{
	v1alpha1.TaintUninitialized,
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeNetworkUnavailable,
}

// StartRules are the conditions under which the first start of a Node is complete. In addition, the Node must be Ready and have
// none of the start-up taints of Kubernetes.
type StartRules struct {
	// Taint is the key of the taint (NoSchedule) that drover removes when the first start is complete; empty means that there
	// is no such taint.
	Taint string
	// Conditions must be True on the Node.
	Conditions []corev1.NodeConditionType
	// DaemonSets must have a Ready pod on the Node.
	DaemonSets []types.NamespacedName
	// OtherTaints are keys of taints (NoSchedule or NoExecute) that other programs must have removed from the Node, in addition to those that
	// are startup taints by their name ([v1alpha1.IsStartupTaint]).
	OtherTaints []string
}

// HasStarted reports whether the first start of the Node was complete before this reconcile, according to the Machine's status.
// machine-controller and older versions of drover recorded no first start. Without a record, the first start was complete if
// the Machine was Ready or Running with this Node, and the Node does not have drover's startup taint. A Node that was deleted
// and has registered again must complete its first start again.
func (r StartRules) HasStarted(m *v1alpha1.Machine, node *corev1.Node) bool {
	ref := m.Status.NodeRef
	switch {
	case ref == nil || ref.UID != "" && ref.UID != node.UID:
		return false
	case RecordOf(m).Started:
		return true
	case r.hasStartupTaint(node):
		return false
	}
	return ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning || m.Condition(v1alpha1.ConditionReady).Status == corev1.ConditionTrue
}

func (r StartRules) hasStartupTaint(node *corev1.Node) bool {
	taint := corev1.Taint{Key: r.Taint, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// Missing returns what the Node still lacks before it can run pods, one sentence for each item.
func (r StartRules) Missing(node *corev1.Node) []string {
	var out []string
	if keepsPodsAway(node, v1alpha1.TaintUninitialized) {
		out = append(out, "the cloud-controller-manager has not initialized the Node (taint "+v1alpha1.TaintUninitialized+
			"); in a cluster without one, set the annotation "+bootstrap.AnnotationExternalCloudProvider+
			`: "false" in spec.template.metadata of the MachineDeployment`)
	}
	ready := Ready(node)
	switch {
	case ready == nil:
		out = append(out, "the Node reports no Ready condition")
	case ready.Status != corev1.ConditionTrue:
		out = append(out, "the Node is not Ready: "+ready.Reason+": "+ready.Message)
	}
	for _, name := range r.Conditions {
		if !isTrue(node, name) {
			out = append(out, fmt.Sprintf("the Node's condition %s is not True", name))
		}
	}
	for _, key := range slices.Concat(startTaints, r.OtherTaints, startupTaintsOf(node)) {
		// Report no problem twice: uninitialized is checked above, and a Node that is not Ready also has the taint not-ready or
		// unreachable.
		implied := key == v1alpha1.TaintUninitialized || len(out) > 0 && (key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable)
		if !implied && keepsPodsAway(node, key) {
			out = append(out, "the Node has the taint "+key)
		}
	}
	return out
}

// startupTaintsOf returns the keys of the Node's taints that are startup taints by their name.
func startupTaintsOf(node *corev1.Node) (keys []string) {
	for _, t := range node.Spec.Taints {
		if v1alpha1.IsStartupTaint(t.Key) && !slices.Contains(keys, t.Key) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// keepsPodsAway reports whether the Node has a taint with the given key that keeps ordinary pods away. A taint with the
// effect PreferNoSchedule does not keep them away. Neither do not-ready and unreachable with the effect NoExecute, because
// every pod tolerates those taints for five minutes (admission plug-in DefaultTolerationSeconds).
func keepsPodsAway(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		if t.Key != key {
			return false
		}
		tolerated := key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute && !tolerated
	})
}

// IsReadyPodOf reports whether a pod belongs to the DaemonSet and is Ready.
func IsReadyPodOf(pod *corev1.Pod, set types.NamespacedName) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.Name == set.Name && pod.Namespace == set.Namespace &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// unreachableAfter is the time after which a kubelet that does not report counts as dead.
const unreachableAfter = 5 * time.Minute

// Unreachable reports whether the Node's kubelet has not reported for so long that it is not expected to terminate any pod. Kubernetes
// then shows condition Ready as Unknown. A kubelet that reports Ready as False runs, and terminates pods.
func Unreachable(node *corev1.Node, now time.Time) bool {
	c := Ready(node)
	return c != nil && c.Status == corev1.ConditionUnknown && now.Sub(c.LastTransitionTime.Time) >= unreachableAfter
}

// Reports reports whether the Node's kubelet reports its state, Ready or not. Kubernetes shows condition Ready as Unknown soon after
// a kubelet has stopped.
func Reports(node *corev1.Node) bool {
	c := Ready(node)
	return c != nil && c.Status != corev1.ConditionUnknown
}

// Runs reports whether the Node is Ready, so that a kubelet runs on its server. It returns false for a nil Node.
func Runs(node *corev1.Node) bool { return node != nil && isTrue(node, corev1.NodeReady) }

// OutOfService reports whether the Node has the out-of-service taint that drover sets. Because of that taint Kubernetes
// deletes the Node's pods and detaches its volumes.
func OutOfService(node *corev1.Node) bool {
	return slices.Contains(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
}

// Ready returns the Node's condition Ready; nil when the Node has none.
func Ready(node *corev1.Node) *corev1.NodeCondition {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c
}

func isTrue(node *corev1.Node, name corev1.NodeConditionType) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, name)
	return c != nil && c.Status == corev1.ConditionTrue
}
