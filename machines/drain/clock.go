package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LastGrace is how long after the end of its time a drain waits at most for the grace periods of the pods that it has evicted.
	LastGrace = time.Hour
	// mostAway limits how long a time without a round counts as time of the drain. A round follows the one before within half a minute,
	// unless drover cannot act: the Machine is paused, its deletion is withheld, no process leads, or the API server does not answer.
	mostAway = 5 * time.Minute
	// recordEvery is the time after which the time of a drain is recorded again. It is shorter than mostAway, so that no time is lost.
	recordEvery = 4 * time.Minute
)

// Begun reports whether drover has cordoned the node, with which a drain begins.
func Begun(node *corev1.Node) bool { return taintOf(node, &deleting) != nil }

// Lasted returns how long the drain of a node has lasted, without the times in which drover could not act; 0 before the node is
// cordoned. The taint that cordons the node holds the time until its last record (the value), and the time of that record (timeAdded).
// So the time survives a restart, and neither a wrong clock nor an absence adds more than five minutes to it.
func Lasted(node *corev1.Node, now time.Time) time.Duration {
	taint := taintOf(node, &deleting)
	if taint == nil || taint.TimeAdded == nil {
		return 0
	}
	// If the value is missing or is not a duration, no time has been recorded yet.
	before, _ := time.ParseDuration(taint.Value)
	return max(before, 0) + min(max(now.Sub(taint.TimeAdded.Time), 0), mostAway)
}

// TimedOut reports whether the time of a drain is over ([Mode.Final]), and whether the time for the last grace periods is over too
// ([Mode.Over]).
func TimedOut(node *corev1.Node, timeout time.Duration, now time.Time) (final, over bool) {
	lasted := Lasted(node, now)
	return lasted >= timeout, lasted >= timeout+LastGrace
}

// record returns the taint that cordons the node, with the time of the drain; nil while the recorded time is recent enough.
func record(node *corev1.Node, now time.Time) *corev1.Taint {
	taint := deleting
	taint.TimeAdded = &metav1.Time{Time: now.Truncate(time.Second)}
	stored := taintOf(node, &deleting)
	if stored == nil {
		return &taint
	}
	if stored.TimeAdded != nil && now.Sub(stored.TimeAdded.Time).Abs() < recordEvery {
		return nil
	}
	if lasted := Lasted(node, now).Truncate(time.Second); lasted > 0 {
		taint.Value = lasted.String()
	}
	return &taint
}

// taintOf returns the taint of the Node with the key and effect of taint, with any value; nil when it has none.
func taintOf(node *corev1.Node, taint *corev1.Taint) *corev1.Taint {
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(taint) })
	if i < 0 {
		return nil
	}
	return &node.Spec.Taints[i]
}
