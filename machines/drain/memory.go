package drain

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// memory holds what a drain remembers about its node between rounds.
type memory struct {
	// volumes caches the volume of each volume claim. A binding never changes.
	volumes map[types.NamespacedName]boundVolume
	// unused holds, for each attached volume that no pod uses, the time at which it became unused.
	unused map[string]time.Time
	// volumeClaims is true when the drain has seen pods with volume claims on the node. shown is true when the informer cache has shown an
	// attached volume.
	volumeClaims, shown bool
	// first holds the pods of the first round; nil before that round. The others came to the cordoned node.
	first map[types.UID]bool
	// ending holds, for each pod that is being deleted, the time at which this process evicted it, or first saw that. A pod's own
	// deletion timestamp comes from the clock of an API server.
	ending map[types.UID]time.Time
	// returningAsked is true when the pods that would only come again have been evicted.
	returningAsked bool
}

// doubtful reports whether the informer cache may be behind: pods have volume claims, and the cache has never shown an attached volume.
func (m *memory) doubtful() bool { return m.volumeClaims && !m.shown }

func newMemory() *memory {
	return &memory{volumes: map[types.NamespacedName]boundVolume{}, unused: map[string]time.Time{}, ending: map[types.UID]time.Time{}}
}

// overdueAfter is the time that the kubelet has, after the grace period of a pod, to stop its containers and to report its end.
const overdueAfter = time.Minute

// watchPods finds out which pods are overdue, and which ones would only come again.
func (m *memory) watchPods(s *State, now time.Time) {
	s.Overdue, s.Returning, s.ReturningAsked = map[types.UID]bool{}, map[types.UID]bool{}, m.returningAsked
	started := m.first != nil
	if !started {
		m.first = map[types.UID]bool{}
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if !started {
			m.first[pod.UID] = true
		}
		s.Returning[pod.UID] = !m.first[pod.UID] && toleratesDrain(pod)
		if pod.DeletionTimestamp == nil {
			continue
		}
		if _, seen := m.ending[pod.UID]; !seen {
			m.ending[pod.UID] = now
		}
		s.Overdue[pod.UID] = now.Sub(m.ending[pod.UID]) >= gracePeriod(pod)+overdueAfter
	}
}

// remember remembers which pods the round has evicted.
func (m *memory) remember(s *State, now time.Time) {
	for uid, answer := range s.Answers {
		m.returningAsked = m.returningAsked || s.Returning[uid]
		if _, seen := m.ending[uid]; answer.granted() && !seen {
			m.ending[uid] = now
		}
	}
}

// gracePeriod returns how long a pod that is being deleted may take to end.
func gracePeriod(pod *corev1.Pod) time.Duration {
	seconds := cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds)
	return time.Duration(ptr.Deref(seconds, 0)) * time.Second
}

// toleratesDrain reports whether the scheduler may bind the pod to a node that drover has cordoned.
func toleratesDrain(pod *corev1.Pod) bool {
	cordon := []corev1.Taint{deleting, {Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), cordon, pod.Spec.Tolerations, nil, false)
	return !untolerated
}
