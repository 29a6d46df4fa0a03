package set_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// follows: what the Machines say of their nodes is in the set's status within seconds, and a Machine is available when it
// has been Ready for exactly as long as the set says.
func follows(t *testing.T, c client.Client) {
	const least = 3
	s := newSet("following", 2)
	s.Spec.MinReadySeconds = least
	if err := c.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	await(t, c, "following", 2)
	say := func(m *v1alpha1.Machine, status corev1.ConditionStatus, at metav1.Time) {
		t.Helper()
		base := m.DeepCopy()
		m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name}
		m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: status, LastTransitionTime: &at}}
		if err := c.Patch(t.Context(), m, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(what string, ready, available int32) time.Time {
		t.Helper()
		began := time.Now()
		eventually(t, what, func() (string, bool) {
			st := get(t, c, "following").Status
			return fmt.Sprintf("%d ready, %d available", st.ReadyReplicas, st.AvailableReplicas), st.ReadyReplicas == ready && st.AvailableReplicas == available
		})
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: after %v", what, took)
		}
		return time.Now()
	}
	machines := machinesOf(t, c, "following")
	since := metav1.Now().Rfc3339Copy()
	say(&machines[0], corev1.ConditionTrue, since)
	shows("one is Ready, and none available yet", 1, 0)
	if at := shows("it is available", 1, 1); at.Before(since.Add(least * time.Second)) {
		t.Errorf("it was available %v after it was Ready", at.Sub(since.Time))
	}
	say(&machines[1], corev1.ConditionTrue, metav1.NewTime(since.Add(-time.Hour)))
	shows("one that has long been Ready is available at once", 2, 2)
	say(&machines[0], corev1.ConditionUnknown, metav1.Now())
	shows("one whose node is silent is neither", 1, 1)
}
