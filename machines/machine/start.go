package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// startTaints are the keys of the taints that Kubernetes itself puts on a Node that cannot take pods yet.
var startTaints = []string{
	v1alpha1.TaintUninitialized,
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeNetworkUnavailable,
}

// hasStarted reports whether the first start of the Node was completed before this pass: the Machine's status records that,
// or the Machine was Ready or Running with this very Node although nothing is recorded, as machine-controller and older
// versions of drover leave it. A Node that was deleted and has registered again starts again.
func (r *Reconciler) hasStarted(m *v1alpha1.Machine, node *corev1.Node) bool {
	ref := m.Status.NodeRef
	switch {
	case ref == nil || ref.UID != "" && ref.UID != node.UID:
		return false
	case marksIn(m).Started:
		return true
	case r.hasStartupTaint(node):
		return false
	}
	return ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning || statusOf(m, v1alpha1.ConditionReady) == corev1.ConditionTrue
}

func (r *Reconciler) hasStartupTaint(node *corev1.Node) bool {
	taint := corev1.Taint{Key: r.StartupTaint, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// awaitStart notes what the Node lacks to complete its first start. It looks at pods only when nothing else is missing.
func (r *Reconciler) awaitStart(ctx context.Context, p *pass) error {
	if p.facts.started {
		return nil
	}
	p.awaited = r.missing(p.facts.node)
	if len(p.awaited) > 0 || len(r.StartupDaemonSets) == 0 {
		return nil
	}
	var pods corev1.PodList
	if err := r.Target.GetAPIReader().List(ctx, &pods, client.MatchingFields{"spec.nodeName": p.facts.node.Name}); err != nil {
		return fmt.Errorf("listing the pods of node %s: %w", p.facts.node.Name, err)
	}
	for _, set := range r.StartupDaemonSets {
		if !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return readyPodOf(&pod, set) }) {
			p.awaited = append(p.awaited, fmt.Sprintf("DaemonSet %s has no Ready pod on the Node yet", set))
			p.soonest(retryStart)
		}
	}
	return nil
}

// missing returns what the Node itself shows to be missing before it can take pods, one sentence each.
func (r *Reconciler) missing(node *corev1.Node) []string {
	var out []string
	if keepsPodsAway(node, v1alpha1.TaintUninitialized) {
		out = append(out, "the cloud-controller-manager has not initialized the Node (taint "+v1alpha1.TaintUninitialized+
			"); in a cluster without one, set the annotation "+bootstrap.AnnotationExternalCloudProvider+
			`: "false" in spec.template.metadata of the MachineDeployment`)
	}
	ready := readyCondition(node)
	switch {
	case ready == nil:
		out = append(out, "the Node reports no Ready condition")
	case ready.Status != corev1.ConditionTrue:
		out = append(out, "the Node is not Ready: "+ready.Reason+": "+ready.Message)
	}
	for _, name := range r.StartupConditions {
		if !isTrue(node, name) {
			out = append(out, fmt.Sprintf("the Node's condition %s is not True", name))
		}
	}
	for _, key := range slices.Concat(startTaints, r.OtherStartupTaints) {
		// A Node that is not Ready has the taint for that, too.
		implied := key == v1alpha1.TaintUninitialized || len(out) > 0 && (key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable)
		if !implied && keepsPodsAway(node, key) {
			out = append(out, "the Node has the taint "+key)
		}
	}
	return out
}

// startMessage names what the Node lacks to complete its first start. In a pass that did not come to the Node, that is
// what the Node itself shows.
func (r *Reconciler) startMessage(p *pass) string {
	awaited := p.awaited
	if len(awaited) == 0 {
		awaited = r.missing(p.facts.node)
	}
	return cmp.Or(strings.Join(awaited, "; "), "the labels and taints of the Node have not been written yet")
}

// keepsPodsAway reports whether the Node has a taint of that key which keeps ordinary pods away. PreferNoSchedule does
// not; nor do not-ready and unreachable with the effect NoExecute, which every pod tolerates for five minutes
// (admission plug-in DefaultTolerationSeconds).
func keepsPodsAway(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		if t.Key != key {
			return false
		}
		tolerated := key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute && !tolerated
	})
}

// readyPodOf reports whether a pod belongs to the DaemonSet and is Ready.
func readyPodOf(pod *corev1.Pod, set types.NamespacedName) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.Name == set.Name && pod.Namespace == set.Namespace &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}
