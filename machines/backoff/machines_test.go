package backoff

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// machineOf returns a Machine with the given UID.
func machineOf(uid types.UID) *v1alpha1.Machine {
	m := &v1alpha1.Machine{}
	m.UID = uid
	return m
}

func TestTheLastFailureOfAMachineIsKnownUntilAnAttemptSucceeds(t *testing.T) {
	b, m, now := &Machine{}, machineOf("u"), time.Unix(1000, 0)
	if got := b.Last(m, now); got != nil {
		t.Errorf("Last() before any failure = %v, want nil", got)
	}
	failure := fault.New(fault.Invalid, fault.CodeFlavorNotFound, "no such flavor")
	b.Failed(m, failure, now)
	if got := b.Last(m, now); got != failure {
		t.Errorf("Last() after a failure = %v, want the failure", got)
	}
	*b = Machine{}
	if got := b.Last(m, now); got != nil {
		t.Errorf("Last() after a success = %v, want nil", got)
	}
}

func TestADeletionHasABackOffOfItsOwn(t *testing.T) {
	now := time.Unix(1000, 0)
	refused := fault.New(fault.Transient, fault.CodeCloudUnavailable, "503")
	going := func() *v1alpha1.Machine {
		m := machineOf("u")
		m.DeletionTimestamp = ptr.To(metav1.NewTime(now))
		return m
	}
	shows := func(m *v1alpha1.Machine, operation string, at time.Time) *v1alpha1.Machine {
		m.Status.ErrorReason, m.Status.ErrorMessage = ptr.To(string(refused.Code)), ptr.To(refused.Message)
		m.Status.LastOperation = &v1alpha1.LastOperation{Type: &operation, State: ptr.To(v1alpha1.OperationFailed), LastUpdated: ptr.To(metav1.NewTime(at))}
		return m
	}
	t.Run("a failed creation does not delay the deletion (F-62)", func(t *testing.T) {
		b := &Machine{}
		b.Failed(machineOf("u"), fault.New(fault.Auth, fault.CodeForbidden, "no"), now)
		if until, last := b.Until(going(), now), b.Last(going(), now); !until.IsZero() || last != nil {
			t.Errorf("waits until %v because of %v", until, last)
		}
	})
	t.Run("after a restart, the deletion waits and shows its failure from the status (F-62)", func(t *testing.T) {
		m := shows(going(), v1alpha1.OperationDelete, now)
		if until, last := new(Machine).Until(m, now), new(Machine).Last(m, now); !until.Equal(now.Add(2*time.Second)) || last == nil || last.Message != "503" {
			t.Errorf("waits until %v because of %v", until, last)
		}
	})
	t.Run("after a restart, the failure of the creation in the status does not delay the deletion (F-62)", func(t *testing.T) {
		if until := new(Machine).Until(shows(going(), "Create", now), now); !until.IsZero() {
			t.Errorf("waits until %v", until)
		}
	})
	t.Run("credentials that can be read again end the back-off at once (F-62)", func(t *testing.T) {
		b := &Machine{}
		if wait := b.Unreadable(going(), fault.New(fault.Auth, fault.CodeCredentialsMissing, "no"), now); wait != 2*time.Second {
			t.Errorf("the next reading is after %v", wait)
		}
		if until := b.Until(going(), now); !until.IsZero() {
			t.Errorf("waits until %v", until)
		}
	})
	t.Run("a failure whose time in the status is in the future delays the Machine by its own wait only (F-68)", func(t *testing.T) {
		m := shows(machineOf("u"), "Create", now.Add(time.Hour))
		if until := new(Machine).Until(m, now); !until.Equal(now.Add(2 * time.Second)) {
			t.Errorf("waits until %v", until)
		}
	})
}

func TestAnAnnotationThatAnswersAFailureEndsTheWait(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		class fault.Class
		key   string
		waits bool
	}{
		"an annotation of drover ends the wait after a failure of the Machine's spec (F-102)":                  {fault.Invalid, v1alpha1.AnnotationAllowSkew, false},
		"an annotation of another program does not end the wait after a failure of the Machine's spec (F-102)": {fault.Invalid, "example.com/writes", true},
		"an annotation of drover does not end the wait after a failure of the cloud (F-102)":                   {fault.Transient, v1alpha1.AnnotationAllowSkew, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := &Machine{}, machineOf("u")
			b.Failed(m, fault.New(tt.class, fault.CodeInvalidSpec, "no"), now)
			if until := b.Until(m, now); !until.After(now) {
				t.Fatalf("the Machine waits until %s before the annotation is set, want a time after %s", until, now)
			}
			m.Annotations = map[string]string{tt.key: "true"}
			if until := b.Until(m, now); until.After(now) != tt.waits {
				t.Errorf("the Machine waits until %s, want a wait: %t", until, tt.waits)
			}
			wait := b.Failed(m, fault.New(tt.class, fault.CodeInvalidSpec, "no"), now)
			if until := b.Until(m, now); wait <= 0 || !until.After(now) {
				t.Errorf("after another failure the Machine waits until %s, want a time after %s", until, now)
			}
		})
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
			b, u, now := &Machine{}, machineOf("u"), start
			for want := tt.first; ; want = min(2*want, tt.most) {
				err := fault.New(tt.class, fault.CodeUnknown, "no")
				got := b.Failed(u, err, now)
				if got != want || b.Failed(u, err, now.Add(want-1)) != 1 {
					t.Fatalf("waits %v, want %v", got, want)
				}
				if now = now.Add(want); want == tt.most && now.After(start.Add(time.Hour)) {
					return
				}
			}
		})
	}
	t.Run("a Machine's wait starts again at the minimum when the class of its failures changes, and a success ends the wait (MCM-38)", func(t *testing.T) {
		b, m := &Machine{}, machineOf("u")
		b.Failed(m, fault.New(fault.Invalid, fault.CodeInvalidSpec, "no"), start)
		if got := b.Failed(m, fault.New(fault.Transient, fault.CodeCloudUnavailable, "no"), start.Add(time.Minute)); got != 2*time.Second {
			t.Errorf("waits %v", got)
		}
		*b = Machine{}
		if until := b.Until(m, start); !until.IsZero() {
			t.Errorf("waits until %v", until)
		}
	})
}
