package health

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMetricsCountMachinesWhoseReplacementIsBlocked(t *testing.T) {
	s := newStores()
	s.fill(t, 1, 5)
	r, now := newPasses(t, s)
	pass := func(later time.Duration) {
		t.Helper()
		now.SetTime(now.Now().Add(later))
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range s.nodes.List()[:3] {
		node := o.(*corev1.Node)
		node.Status.Conditions[5] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(now.Now())}
	}
	t.Run("Machines past their health timeout are counted while too many Machines are unhealthy (MCM-48)", func(t *testing.T) {
		held := r.metrics.held.WithLabelValues("ClusterUnhealthy")
		for _, step := range []struct {
			later time.Duration
			want  float64
		}{{time.Second, 0}, {9 * time.Minute, 0}, {time.Minute, 3}, {time.Hour, 3}, {time.Hour, 3}} {
			pass(step.later)
			if got := testutil.ToFloat64(held); got != step.want {
				t.Errorf("%v later: got %v, want %v", step.later, got, step.want)
			}
		}
		if got := testutil.ToFloat64(r.metrics.unhealthy); got != 3 {
			t.Errorf("%v are unhealthy", got)
		}
	})
}
