package drain

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestADisruptionBudgetThatNeverAllowsADisruptionIsReported(t *testing.T) {
	budget := func(change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1}}
		if change != nil {
			change(b)
		}
		return b
	}
	for _, tt := range []struct {
		name         string
		change       func(*policyv1.PodDisruptionBudget)
		neverAllowed bool
	}{
		{"reports a budget that allows no disruption although all its pods are healthy (MCM-62)", nil, true},
		{"does not report a budget with unhealthy pods (MCM-62)", func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = 2 }, false},
		{"does not report a budget whose status is older than its spec (MCM-62)", func(b *policyv1.PodDisruptionBudget) { b.Generation = 7 }, false},
		{"does not report a budget that selects only other pods (MCM-62)", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"a": "b"} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := newTestNode(t, plain("p"), budget(tt.change))
			node.answer = func(context.Context, string) error { return tooMany() }
			r, err := node.drainer().Round(t.Context(), Order{Node: "n"}, noon)
			if err != nil || len(r.Blocked) != 1 {
				t.Fatalf("Round() = %+v, %v", r, err)
			}
			if got := strings.Contains(r.Blocked[0].Reason, "never allows a disruption"); got != tt.neverAllowed || !strings.Contains(r.Blocked[0].Reason, "needs 1 healthy pods") {
				t.Errorf("%q", r.Blocked[0].Reason)
			}
		})
	}
}

func TestADrainRoundEndsSoonDespiteALongRetryAfterHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := newTestNode(t, plain("p"))
		node.answer = func(ctx context.Context, _ string) error { // no answer before the timeout, as when client-go waits because of Retry-After
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		r, err := node.drainer().Round(t.Context(), Order{Node: "n"}, noon)
		if err != nil || len(r.Blocked) != 1 || r.Done || time.Since(began) > patience {
			t.Errorf("Round() = %+v, %v, after %v", r, err, time.Since(began))
		}
	})
}
