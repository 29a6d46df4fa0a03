package set

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseFor is a lease that is fresh for a number of checks. Checks may come from several goroutines.
type leaseFor struct{ left atomic.Int64 }

func newLeaseFor(looks int64) *leaseFor {
	l := &leaseFor{}
	l.left.Store(looks)
	return l
}

func (l *leaseFor) Fresh(time.Time) bool { return l.left.Add(-1) >= 0 }

// A leader checks the age of its lease before each create, so that it never creates Machines beside a new leader.
func TestASetCreatesNoMachineWhenTheLeaderHasNotRenewedItsLeaseInTime(t *testing.T) {
	t.Run("a reconcile creates no Machine, and is repeated later, when the lease is too old from the start", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		r = with(r, func(o *Options) { o.Lease = newLeaseFor(0) })
		set := testSet(3)
		if err := r.client.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		*calls = 0
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil || *calls != 0 || result.RequeueAfter != retryLease {
			t.Errorf("%d calls, %+v, %v; want none, and another reconcile after %v", *calls, result, err, retryLease)
		}
	})
	t.Run("a reconcile that stops because the lease has become too old is not reported as an error of the set", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		r = with(r, func(o *Options) { o.Lease = newLeaseFor(2) })
		set := testSet(3)
		set.Finalizers = []string{metav1.FinalizerDeleteDependents}
		if err := r.client.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		*calls = 0
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil || *calls != 1 || result.RequeueAfter != retryLease {
			t.Errorf("%d calls, %+v, %v; want one, and another reconcile after %v", *calls, result, err, retryLease)
		}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || set.Status.ErrorReason != nil {
			t.Errorf("the set's error is %v, %v", set.Status.ErrorReason, err)
		}
	})
	t.Run("a set stops creating Machines when the lease becomes too old after the set's first create call", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		r = with(r, func(o *Options) { o.Lease = newLeaseFor(1) })
		if err := r.create(t.Context(), testSet(100), 100); !errors.Is(err, errLeaseOld) || *calls != 1 {
			t.Errorf("%d calls, %v; want one, and errLeaseOld", *calls, err)
		}
		if n := r.expected.unconfirmed(testSet(100)).created; n != 1 {
			t.Errorf("%d Machines are expected, want 1", n)
		}
	})
	t.Run("a set creates Machines when no lease is configured", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		if err := r.create(t.Context(), testSet(2), 2); err != nil || *calls != 2 {
			t.Errorf("%d calls, %v", *calls, err)
		}
	})
}
