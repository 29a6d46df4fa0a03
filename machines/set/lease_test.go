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

// leaseFor is a lease that is fresh for so many looks, which come from several goroutines.
type leaseFor struct{ left atomic.Int64 }

func newLeaseFor(looks int64) *leaseFor {
	l := &leaseFor{}
	l.left.Store(looks)
	return l
}

func (l *leaseFor) Fresh(time.Time) bool { return l.left.Add(-1) >= 0 }

// Design §3: a leader looks at its lease's age before each create.
func TestUnderAnOldLeaseASetMakesNothing(t *testing.T) {
	t.Run("a pass is put off", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		r = with(r, func(o *Options) { o.Lease = newLeaseFor(0) })
		set := testSet(3)
		if err := r.client.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		*calls = 0
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil || *calls != 0 || result.RequeueAfter != retryLease {
			t.Errorf("%d calls, %+v, %v; want none, and another look after %v", *calls, result, err, retryLease)
		}
	})
	t.Run("that a pass ended in the middle is not written on the set", func(t *testing.T) {
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
			t.Errorf("%d calls, %+v, %v; want one, and another look after %v", *calls, result, err, retryLease)
		}
		if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || set.Status.ErrorReason != nil {
			t.Errorf("the set says %v, %v", set.Status.ErrorReason, err)
		}
	})
	t.Run("in the middle of a pass the rest is left", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		r = with(r, func(o *Options) { o.Lease = newLeaseFor(1) })
		if err := r.machines.create(t.Context(), testSet(100), 100); !errors.Is(err, errLeaseOld) || *calls != 1 {
			t.Errorf("%d calls, %v; want one, and that the lease is old", *calls, err)
		}
		if n := r.expected.unmet(testSet(100)).created; n != 1 {
			t.Errorf("%d count as made, one was", n)
		}
	})
	t.Run("without a lease it is always fresh", func(t *testing.T) {
		r, calls := withClient(t, func(int) error { return nil })
		if err := r.machines.create(t.Context(), testSet(2), 2); err != nil || *calls != 2 {
			t.Errorf("%d calls, %v", *calls, err)
		}
	})
}
