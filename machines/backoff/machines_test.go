package backoff

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

func TestAFailureOfAMachineIsRememberedUntilTheMachinesStatusShowsIt(t *testing.T) {
	b := NewMachines()
	m := &v1alpha1.Machine{}
	m.UID = "u"
	if got := b.Unwritten(m); got != nil {
		t.Errorf("Unwritten() before any failure = %v, want nil", got)
	}
	failure := fault.New(fault.Invalid, fault.CodeFlavorNotFound, "no such flavor")
	b.Failed(m.UID, failure, time.Unix(0, 0))
	if got := b.Unwritten(m); got != failure {
		t.Errorf("Unwritten() while the status shows nothing = %v, want the failure", got)
	}
	m.Status.ErrorReason = ptr.To(string(failure.Code))
	if got := b.Unwritten(m); got != nil {
		t.Errorf("Unwritten() once the status shows it = %v, want nil", got)
	}
}

func TestAMachineWaitsLongerAfterEachOfItsFailures(t *testing.T) {
	start := time.Unix(0, 0)
	for _, tt := range []struct {
		class       fault.Class
		first, most time.Duration
	}{
		{fault.Transient, 2 * time.Second, time.Minute},
		{fault.Conflict, 2 * time.Second, time.Minute},
		{fault.Auth, 2 * time.Second, 5 * time.Minute},
		{fault.Unknown, 2 * time.Second, 5 * time.Minute},
		{fault.Invalid, 30 * time.Second, 5 * time.Minute},
	} {
		t.Run("a Machine's wait doubles, up to a maximum, with each failure of class "+string(tt.class)+" (MCM-38)", func(t *testing.T) {
			b, now := NewMachines(), start
			for want := tt.first; ; want = min(2*want, tt.most) {
				err := fault.New(tt.class, fault.CodeUnknown, "no")
				got := b.Failed("u", err, now)
				if got != want || b.Failed("u", err, now.Add(want-1)) != 1 {
					t.Fatalf("waits %v, want %v", got, want)
				}
				if other := b.Failed(types.UID(now.String()), err, now); other != tt.first {
					t.Fatalf("another Machine waits %v, want %v", other, tt.first)
				}
				if now = now.Add(want); want == tt.most && now.After(start.Add(time.Hour)) {
					return
				}
			}
		})
	}
	t.Run("a Machine's wait starts again at the minimum when the class of its failures changes, and a success ends the wait (MCM-38)", func(t *testing.T) {
		b := NewMachines()
		b.Failed("u", fault.New(fault.Invalid, fault.CodeInvalidSpec, "no"), start)
		if got := b.Failed("u", fault.New(fault.Transient, fault.CodeCloudUnavailable, "no"), start.Add(time.Minute)); got != 2*time.Second {
			t.Errorf("waits %v", got)
		}
		b.Forget("u")
		m := &v1alpha1.Machine{}
		m.UID = "u"
		if until := b.Until(m, start); !until.IsZero() {
			t.Errorf("waits until %v", until)
		}
	})
}
