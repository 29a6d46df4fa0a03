package steps

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/drain"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/machine/scope"
	"github.com/drover-project/drover/machines/machine/status"
)

func TestWaitBeforeADrainIsTriedAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		result  drain.Result
		elapsed time.Duration
		want    time.Duration
	}{
		{"lasts two seconds while pods are terminating", drain.Result{Leaving: []string{"ns/p"}}, time.Hour, 2 * time.Second},
		{"lasts ten seconds when an eviction was refused (MCM-63, MC-60)", drain.Result{Blocked: []drain.Blocked{{Pod: "p", Reason: "so"}}}, time.Minute, 10 * time.Second},
		{"lasts thirty seconds when an eviction was refused and the drain has lasted for five minutes (MCM-63, MC-60)", drain.Result{Blocked: []drain.Blocked{{Pod: "p", Reason: "so"}}}, 5 * time.Minute, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &v1alpha1.Machine{}
			m.DeletionTimestamp = new(metav1.NewTime(now))
			status.SetCondition(m, v1alpha1.ConditionDeleting, status.Verdict{Status: "True", Reason: lifecycle.ReasonDraining, Message: drainText(tt.result)}, metav1.NewTime(now))
			store := scope.NewStore(scope.Options{Clock: clocktesting.NewFakeClock(now.Add(tt.elapsed))})
			if got := retryDrain(store.Open(m)); got != tt.want {
				t.Errorf("retryDrain() = %v, want %v", got, tt.want)
			}
		})
	}
}
