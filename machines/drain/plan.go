package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// systemCriticalPriority is the lowest priority of pods that the cluster itself depends on (Kubernetes' own value).
const systemCriticalPriority = 2 * 1000000000

// Mode is how a node is drained.
type Mode struct {
	// Abrupt: the node's kubelet does not answer, or a person has said so. Pods get one second of grace and are not waited
	// for; a budget that refuses is not waited for either.
	Abrupt bool
}

// Volumes say what a plan must know about the volumes of a node.
type Volumes struct {
	// Exclusive are the volumes that only this node can have, by the UID of the pod that uses them.
	Exclusive map[types.UID][]string
	// Detaching are those that no pod uses any more and that are still attached.
	Detaching []string
}

// Plan is what one pass does.
type Plan struct {
	// Evict are asked to go now.
	Evict []*corev1.Pod
	// Waiting are on their way out.
	Waiting []*corev1.Pod
	// Later go once those before them are gone, and their volumes with them.
	Later []*corev1.Pod
	// Skipped stay: DaemonSet pods, mirror pods, and those that have ended.
	Skipped []*corev1.Pod
}

// Done tells whether nothing is left that the drain must wait for.
func (p *Plan) Done() bool { return len(p.Evict)+len(p.Waiting)+len(p.Later) == 0 }

// MakePlan decides about the pods of one node. Pods that the cluster itself depends on go after all others have gone.
// Among equals, those with volumes of their own go one by one, each when the volumes of the one before have been
// detached, since a cloud moves volumes one by one too; the others go at once. Within a plan, pods of higher priority
// come first, then by name.
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
