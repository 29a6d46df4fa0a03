package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/drain"
)

func TestRetryOfADrain(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		result  drain.Result
		elapsed time.Duration
		want    time.Duration
	}{
		{"pods that are ending end soon", drain.Result{Remaining: 1}, time.Hour, 2 * time.Second},
		{"MCM-63 MC-60 a budget is asked again after ten seconds", drain.Result{Blocked: []drain.Blocked{{Pod: "p", Reason: "so"}}}, time.Minute, 10 * time.Second},
		{"MCM-63 MC-60 and later after thirty", drain.Result{Blocked: []drain.Blocked{{Pod: "p", Reason: "so"}}}, 5 * time.Minute, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &v1alpha1.Machine{}
			m.DeletionTimestamp = new(metav1.NewTime(now))
			conditions{machine: m, now: metav1.NewTime(now)}.set(v1alpha1.ConditionDeleting, verdict{"True", reasonDraining, drainText(tt.result)})
			r := &Reconciler{Options: Options{Clock: clocktesting.NewFakePassiveClock(now.Add(tt.elapsed))}}
			if got := r.retryDrain(&pass{m: m, base: m}); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
