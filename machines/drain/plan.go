package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// systemCriticalPriority is the lowest priority of pods that the cluster itself depends on. Kubernetes uses the same value.
const systemCriticalPriority = 2 * 1000000000

// Mode describes how a node is drained.
type Mode struct {
	// Abrupt is true when the kubelet of the node does not answer, or when an operator has forced the deletion. Pods then get a grace
	// period of one second, and the drain waits neither for pods to end nor for a disruption budget that refuses.
	Abrupt bool
}

// Volumes holds what a plan must know about the volumes of a node.
type Volumes struct {
	// Exclusive holds, by the UID of a pod, the volumes of the pod that can be attached to one node only.
	Exclusive map[types.UID][]string
	// Detaching holds the volumes that no pod uses any more and that are still attached.
	Detaching []string
}

// Plan holds what one round does with the pods of a node.
type Plan struct {
	// Evict holds the pods to evict now.
	Evict []*corev1.Pod
	// Waiting holds the pods that are being deleted already.
	Waiting []*corev1.Pod
	// Later holds the pods to evict when earlier pods are gone and the volumes of the earlier pods are detached.
	Later []*corev1.Pod
	// Skipped holds the pods that stay: DaemonSet pods, mirror pods and ended pods.
	Skipped []*corev1.Pod
}

// Done reports whether the drain waits for no pod.
func (p *Plan) Done() bool { return len(p.Evict)+len(p.Waiting)+len(p.Later) == 0 }

// MakePlan decides about the pods of one node. Pods that the cluster itself depends on form a second group, which is evicted after all
// other pods are gone. Within each group, pods with exclusive volumes are evicted one by one, each when the volumes of the previous pod
// have been detached, because a cloud also moves volumes one by one. The other pods of the group are evicted together. Evictions are
// ordered by priority, highest first, then by name.
func MakePlan(pods []corev1.Pod, mode Mode, volumes Volumes) *Plan {
	p := &Plan{}
	var groups [2][]*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		switch {
		case stays(pod), mode.Abrupt && pod.DeletionTimestamp != nil:
			p.Skipped = append(p.Skipped, pod)
		case critical(pod):
			groups[1] = append(groups[1], pod)
		default:
			groups[0] = append(groups[0], pod)
		}
	}
	for _, group := range groups {
		slices.SortFunc(group, byPriority)
		switch {
		case mode.Abrupt:
			p.Evict = append(p.Evict, group...)
		case len(p.Evict)+len(p.Waiting) > 0:
			p.Later = append(p.Later, group...)
		default:
			p.addGroup(group, volumes)
		}
	}
	slices.SortFunc(p.Evict, byPriority)
	return p
}

// addGroup plans the pods of one group, in the order of their priority.
func (p *Plan) addGroup(group []*corev1.Pod, volumes Volumes) {
	busy := len(volumes.Detaching) > 0
	for _, pod := range group {
		if pod.DeletionTimestamp != nil {
			p.Waiting = append(p.Waiting, pod)
			busy = busy || len(volumes.Exclusive[pod.UID]) > 0
		}
	}
	for _, pod := range group {
		exclusive := len(volumes.Exclusive[pod.UID]) > 0
		switch {
		case pod.DeletionTimestamp != nil:
		case exclusive && busy:
			p.Later = append(p.Later, pod)
		default:
			p.Evict = append(p.Evict, pod)
			busy = busy || exclusive
		}
	}
}

// stays reports whether a pod is left on the node: its DaemonSet would create it again, only the kubelet manages it (a mirror pod), or it
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

// priority returns the priority of a pod. A pod without one has priority 0.
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
