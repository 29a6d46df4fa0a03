package backoff

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// maxJoins bounds the join outcomes in the status of a group. The schema has the same bound.
const maxJoins = 10

// withJoin appends the outcome of a join to recent. It returns nil until the first join fails, so that a group without failures
// causes no write. Before the first failure it inserts one success for each Node of the group, because the joins of these Nodes
// were not recorded.
func withJoin(recent []v1alpha1.JoinOutcome, ok bool, nodes int) []v1alpha1.JoinOutcome {
	outcome := v1alpha1.JoinFailed
	if ok {
		outcome = v1alpha1.JoinSucceeded
	}
	if len(recent) == 0 && !ok {
		recent = slices.Repeat([]v1alpha1.JoinOutcome{v1alpha1.JoinSucceeded}, min(nodes, maxJoins-1))
	}
	out := append(slices.Clone(recent), outcome)
	out = out[max(0, len(out)-maxJoins):]
	if failures(out) == 0 {
		return nil
	}
	return out
}

// joinsFail reports whether at least half of the recent joins have failed (CAPI-26).
func joinsFail(recent []v1alpha1.JoinOutcome) bool {
	failed := failures(recent)
	return failed > 0 && 2*failed >= len(recent)
}

// JoinsFail reports whether at least half of the recent joins of a group have failed: those in the status of its holder, and a number
// of further failed joins that the status does not hold. nodes is the number of Nodes of the group.
func JoinsFail(holder metav1.Object, further, nodes int) bool {
	stored := statusIn(holder)
	recent := outcomesIn(stored.RecentJoins, stored.JoinOutcomes)
	for range min(further, maxJoins) {
		recent = withJoin(recent, false, nodes)
	}
	return joinsFail(recent)
}

func failures(recent []v1alpha1.JoinOutcome) (n int) {
	for _, outcome := range recent {
		if outcome == v1alpha1.JoinFailed {
			n++
		}
	}
	return n
}

// letters are the letters that stand for the outcomes of joins in status.recentJoins.
var letters = map[v1alpha1.JoinOutcome]string{v1alpha1.JoinSucceeded: "j", v1alpha1.JoinFailed: "f"}

// lettersOf returns the outcomes in the format of status.recentJoins.
func lettersOf(recent []v1alpha1.JoinOutcome) (text string) {
	for _, outcome := range recent {
		text += letters[outcome]
	}
	return text
}

// outcomesIn returns the outcomes in a status, which has two fields for them: the letters in status.recentJoins, and
// status.joinOutcomes. This release writes both fields. An older release writes only the letters, so the letters are newer if
// the two fields differ. A later release that no longer writes the letters leaves them empty.
func outcomesIn(text string, typed []v1alpha1.JoinOutcome) (all []v1alpha1.JoinOutcome) {
	if text == "" {
		return typed
	}
	for _, letter := range text {
		outcome := v1alpha1.JoinSucceeded
		if string(letter) == letters[v1alpha1.JoinFailed] {
			outcome = v1alpha1.JoinFailed
		}
		all = append(all, outcome)
	}
	return all
}
