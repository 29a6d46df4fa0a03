package main

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// lock is a resource lock of leader election that returns err from every call after a delay.
type lock struct {
	resourcelock.Interface
	clock *clocktesting.FakePassiveClock
	takes time.Duration
	err   error
	// holder and renewed are the lease's holder and the time of its last renewal, as Get returns
	// them.
	holder  string
	renewed metav1.Time
}

func (l *lock) Identity() string { return "us" }

func (l *lock) answer() error {
	l.clock.SetTime(l.clock.Now().Add(l.takes))
	return l.err
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder, RenewTime: l.renewed}, nil, l.answer()
}

func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.answer() }
func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.answer() }

func TestWhenTheLeaderLeaseIsFreshEnoughToCreateCloudResources(t *testing.T) {
	ours, released := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}, resourcelock.LeaderElectionRecord{}
	renew := func(l *lease) { _ = l.Update(context.Background(), ours) }
	for _, tt := range []struct {
		name string
		do   func(*lease, *lock)
		want bool
	}{
		{"a lease that was never taken is not fresh", func(*lease, *lock) {}, false},
		{"a lease that was just created is fresh", func(l *lease, _ *lock) { _ = l.Create(context.Background(), ours) }, true},
		{"a lease is fresh until half of the lease duration has passed since its renewal", func(l *lease, k *lock) {
			renew(l)
			k.clock.SetTime(k.clock.Now().Add(leaseFresh))
		}, true},
		{"a lease is not fresh when more than half of the lease duration has passed since its renewal", func(l *lease, k *lock) {
			renew(l)
			k.clock.SetTime(k.clock.Now().Add(leaseFresh + time.Nanosecond))
		}, false},
		{"a lease whose renewal took longer than half of the lease duration is not fresh", func(l *lease, k *lock) {
			k.takes = leaseFresh + time.Second
			renew(l)
		}, false},
		{"a failed renewal does not extend the time for which a lease is fresh", func(l *lease, k *lock) {
			renew(l)
			k.clock.SetTime(k.clock.Now().Add(leaseFresh))
			k.err, k.takes = errors.New("conflict"), time.Second
			renew(l)
		}, false},
		{"a lease is not fresh when a read of the lease shows that another process holds it", func(l *lease, k *lock) {
			renew(l)
			k.holder = "another"
			_, _, _ = l.Get(context.Background())
		}, false},
		{"a fresh lease stays fresh when a read of the lease shows that this process still holds it", func(l *lease, k *lock) {
			renew(l)
			k.holder = "us"
			_, _, _ = l.Get(context.Background())
		}, true},
		{"a fresh lease stays fresh when a read of the lease fails", func(l *lease, k *lock) {
			renew(l)
			k.holder, k.err = "another", errors.New("no route to host")
			_, _, _ = l.Get(context.Background())
		}, true},
		{"a released lease is not fresh", func(l *lease, _ *lock) {
			renew(l)
			_ = l.Update(context.Background(), released)
		}, false},
		{"a lease whose release failed is not fresh", func(l *lease, k *lock) {
			renew(l)
			k.err = errors.New("no route to host")
			_ = l.Update(context.Background(), released)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &lock{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
			l := &lease{Interface: k, clock: k.clock}
			tt.do(l, k)
			if got := l.Fresh(k.clock.Now()); got != tt.want {
				t.Errorf("fresh: %v", got)
			}
		})
	}
	t.Run("a lease is not fresh after the process of drover was suspended for a minute", func(t *testing.T) {
		k := &lock{clock: clocktesting.NewFakePassiveClock(time.Now())}
		l := &lease{Interface: k, clock: k.clock}
		renew(l)
		// Only the wall clock has advanced, as after a suspension.
		if slept := k.clock.Now().Round(0).Add(time.Minute); l.Fresh(slept) {
			t.Error("it is fresh")
		}
	})
	t.Run("without leader election, drover may create cloud resources at any time", func(t *testing.T) {
		if l, err := newLease(nil, &options{programOptions: programOptions{features: []string{noLeaderElection}}}); err != nil || !l.Fresh(time.Time{}) {
			t.Errorf("error %v", err)
		}
	})
}
