// Package drain empties a node: [Plan] decides which pods go now, which stay and which are waited for; [Drainer.Pass]
// carries one such plan out through the Eviction API. Neither waits: a pass ends when the evictions have been asked for.
package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// systemCriticalPriority is the lowest priority of pods that the cluster itself depends on (Kubernetes' own value).
const systemCriticalPriority = 2 * 1000000000

// Mode is how a node is drained.
type Mode struct {
	// Unreachable: the node's kubelet does not answer. Pods get one second of grace and are not waited for, since
	// nobody will end them; a budget that refuses is not waited for either.
	Unreachable bool
}

// Plan is what one pass does.
type Plan struct {
	// Evict are asked to go now.
	Evict []*corev1.Pod
	// Waiting are on their way out.
	Waiting []*corev1.Pod
	// Later go once those before them are gone.
	Later []*corev1.Pod
	// Skipped stay: DaemonSet pods, mirror pods, and those that have ended.
	Skipped []*corev1.Pod
}

// Done tells whether nothing is left that the drain must wait for.
func (p *Plan) Done() bool { return len(p.Evict)+len(p.Waiting)+len(p.Later) == 0 }

// MakePlan decides about the pods of one node. Pods that the cluster itself depends on go after all others have gone.
// Within a plan, pods of higher priority come first, then by name.
func MakePlan(pods []corev1.Pod, mode Mode) *Plan {
	p := &Plan{}
	var groups [2][]*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		switch {
		case stays(pod), mode.Unreachable && pod.DeletionTimestamp != nil:
			p.Skipped = append(p.Skipped, pod)
		case critical(pod):
			groups[1] = append(groups[1], pod)
		default:
			groups[0] = append(groups[0], pod)
		}
	}
	for _, group := range groups {
		if len(p.Evict)+len(p.Waiting) > 0 && !mode.Unreachable {
			p.Later = append(p.Later, group...)
			continue
		}
		for _, pod := range group {
			if pod.DeletionTimestamp != nil {
				p.Waiting = append(p.Waiting, pod)
			} else {
				p.Evict = append(p.Evict, pod)
			}
		}
	}
	slices.SortFunc(p.Evict, byPriority)
	return p
}

// stays tells whether a pod is left on the node: its DaemonSet would put it back, nobody but the kubelet rules it, or it
// has ended.
func stays(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

func critical(pod *corev1.Pod) bool { return priority(pod) >= systemCriticalPriority }

// priority of a pod that has none is 0.
func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func byPriority(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(priority(b), priority(a)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
