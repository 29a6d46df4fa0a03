package backoff

import (
	"slices"
	"strings"

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

// The letters that stand for the outcomes of joins in status.recentJoins.
const (
	letterJoined = 'j'
	letterFailed = 'f'
)

// lettersOf returns the outcomes in the format of status.recentJoins.
func lettersOf(recent []v1alpha1.JoinOutcome) string {
	var text strings.Builder
	for _, outcome := range recent {
		if outcome == v1alpha1.JoinFailed {
			text.WriteByte(letterFailed)
		} else {
			text.WriteByte(letterJoined)
		}
	}
	return text.String()
}

// outcomesIn returns the outcomes in a status, which has two fields for them: the letters in status.recentJoins, and
// status.joinOutcomes. This release writes both fields. An older release writes only the letters, so the letters are newer if
// the two fields differ. A later release that no longer writes the letters leaves them empty.
func outcomesIn(letters string, typed []v1alpha1.JoinOutcome) []v1alpha1.JoinOutcome {
	if letters == "" {
		return typed
	}
	out := make([]v1alpha1.JoinOutcome, 0, len(letters))
	for _, letter := range letters {
		if letter == letterFailed {
			out = append(out, v1alpha1.JoinFailed)
		} else {
			out = append(out, v1alpha1.JoinSucceeded)
		}
	}
	return out
}
