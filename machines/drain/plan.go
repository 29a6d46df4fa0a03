package drain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// systemCriticalPriority is the lowest priority of pods that the cluster itself depends on. Kubernetes uses the same value.
const systemCriticalPriority = 2 * 1000000000

// Mode describes how a node is drained. The zero Mode waits for everything.
type Mode struct {
	// Abrupt is true when the kubelet of the node does not answer, or when an operator has forced the deletion. Pods then get a grace
	// period of one second, and the drain waits neither for pods to end nor for a disruption budget that refuses.
	Abrupt bool
	// Final is true when the time of the drain is over. All pods that are left are then evicted at once. The drain waits for the grace
	// periods of those whose eviction is granted, and for nothing else.
	Final bool
	// Over is true when the time for the last grace periods ([LastGrace]) is over too. The drain is then done after this round.
	Over bool
	// NoTarget is true when no other node can take the pods. The drain then does not wait for disruption budgets. A [Pool] keeps the value
	// of the first order of a drain when it is true.
	NoTarget bool
}

// Volumes holds what a plan must know about the volumes of a node.
type Volumes struct {
	// Exclusive holds, by the UID of a pod, the volumes of the pod that can be attached to one node only.
	Exclusive map[types.UID][]string
	// Detaching holds the volumes that no pod uses any more and that are still attached.
	Detaching []string
}

// State holds what a round knows about the pods of a node. A plan follows from it alone.
type State struct {
	Pods    []corev1.Pod
	Mode    Mode
	Volumes Volumes
	// Overdue holds the UIDs of the pods that still exist although their grace period is over.
	Overdue map[types.UID]bool
	// Returning holds the UIDs of the pods that were created after the drain began and that tolerate the node's taints: when such a
	// pod is evicted, its controller creates the next one on the same node. ReturningAsked is true when an earlier round of this drain
	// has evicted such pods.
	Returning      map[types.UID]bool
	ReturningAsked bool
	// Answers holds the answers to the evictions of this round.
	Answers map[types.UID]Answer
}

// Plan holds what a round does with the pods of a node.
type Plan struct {
	// Evict holds the pods to evict now. MakePlan is called again with the answers.
	Evict []*corev1.Pod
	// Waiting holds the pods that are being deleted already and that are within their grace period.
	Waiting []*corev1.Pod
	// Later holds the pods to evict when earlier pods are gone and the volumes of the earlier pods are detached.
	Later []*corev1.Pod
	// Refused holds the pods whose eviction was refused in this round.
	Refused []*corev1.Pod
	// Overdue holds the pods that still exist although their grace period is over.
	Overdue []*corev1.Pod
	// Returning holds the pods that would only come again. They are evicted once, after all others, and not waited for.
	Returning []*corev1.Pod
	// Skipped holds the pods that stay: DaemonSet pods, mirror pods and ended pods.
	Skipped []*corev1.Pod
	// Done reports whether the drain waits for no pod.
	Done bool
	// busy reports whether a volume that only one node can attach is on its way.
	busy bool
}

// MakePlan decides about the pods of one node. Pods that the cluster itself depends on form a second group, which is evicted after the
// other pods are gone. Within each group, pods with exclusive volumes are evicted one by one, each when the volumes of the previous pod
// have been detached, because a cloud also moves volumes one by one. The other pods of the group are evicted together. Evictions are
// ordered by priority, highest first, then by name.
//
// Only a pod that moves makes others wait: one whose eviction was granted, until its grace period is over, and a volume that is being
// detached. A pod whose eviction was refused, or that does not end, holds up the end of the drain and nothing else.
func MakePlan(s *State) *Plan {
	p := &Plan{busy: len(s.Volumes.Detaching) > 0}
	for _, group := range p.sort(s) {
		slices.SortFunc(group, byPriority)
		if p.moves() && !s.Mode.atOnce() {
			p.Later = append(p.Later, group...)
		} else {
			p.addGroup(group, s)
		}
	}
	p.Done = len(p.Evict) == 0 && (s.Mode.Over || !p.moves() && p.waitsForNoneOf(s))
	if p.Done || s.Mode.Final {
		p.addReturning(s)
	}
	slices.SortFunc(p.Evict, byPriority)
	return p
}

// sort records the pods that stay and those that would come again. It returns the other pods: first those of workloads, then those
// that the cluster itself depends on.
func (p *Plan) sort(s *State) (groups [2][]*corev1.Pod) {
	for i := range s.Pods {
		pod := &s.Pods[i]
		switch {
		case stays(pod), s.Mode.Abrupt && pod.DeletionTimestamp != nil:
			p.Skipped = append(p.Skipped, pod)
		case s.Returning[pod.UID]:
			p.Returning = append(p.Returning, pod)
		case critical(pod):
			groups[1] = append(groups[1], pod)
		default:
			groups[0] = append(groups[0], pod)
		}
		p.busy = p.busy || s.leaving(pod) && s.exclusive(pod)
	}
	return groups
}

// atOnce reports whether all pods are evicted at the same time.
func (m Mode) atOnce() bool { return m.Abrupt || m.Final }

// moves reports whether a pod of the plan is leaving, or is about to be evicted.
func (p *Plan) moves() bool { return len(p.Evict)+len(p.Waiting)+len(p.Later) > 0 }

// waitsForNoneOf reports whether the drain ends although the pods whose eviction was refused, and those that do not end, are still on
// the node.
func (p *Plan) waitsForNoneOf(s *State) bool {
	switch {
	case s.Mode.atOnce():
		return true
	case s.Mode.NoTarget:
		budgets := func(pod *corev1.Pod) bool { return s.Answers[pod.UID].Budget }
		return len(p.Overdue) == 0 && !slices.ContainsFunc(p.Refused, func(pod *corev1.Pod) bool { return !budgets(pod) })
	}
	return len(p.Refused)+len(p.Overdue) == 0
}

// leaving reports whether a pod is about to end: its eviction was granted, and its grace period is not over. Nobody waits for a pod that
// would only come again.
func (s *State) leaving(pod *corev1.Pod) bool {
	answer, asked := s.Answers[pod.UID]
	return (pod.DeletionTimestamp != nil || asked && answer.granted()) && !s.Overdue[pod.UID] && !s.Returning[pod.UID] && !stays(pod)
}

// exclusive reports whether the pod has a volume that only one node can attach.
func (s *State) exclusive(pod *corev1.Pod) bool { return len(s.Volumes.Exclusive[pod.UID]) > 0 }

// addGroup plans the pods of one group, in the order of their priority.
func (p *Plan) addGroup(group []*corev1.Pod, s *State) {
	for _, pod := range group {
		_, asked := s.Answers[pod.UID]
		switch {
		case s.Overdue[pod.UID]:
			p.Overdue = append(p.Overdue, pod)
		case s.leaving(pod):
			p.Waiting = append(p.Waiting, pod)
		case asked:
			p.Refused = append(p.Refused, pod)
		case s.exclusive(pod) && p.busy && !s.Mode.atOnce():
			p.Later = append(p.Later, pod)
		default:
			p.Evict = append(p.Evict, pod)
			p.busy = p.busy || s.exclusive(pod)
		}
	}
}

// addReturning plans the evictions of the pods that would only come again, unless this drain has requested them before.
func (p *Plan) addReturning(s *State) {
	for _, pod := range p.Returning {
		if _, asked := s.Answers[pod.UID]; !asked && pod.DeletionTimestamp == nil && !s.ReturningAsked {
			p.Evict = append(p.Evict, pod)
			p.Done = false
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

func critical(pod *corev1.Pod) bool { return corev1helpers.PodPriority(pod) >= systemCriticalPriority }

func byPriority(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
