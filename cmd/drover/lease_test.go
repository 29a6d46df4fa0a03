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

// lock answers each write with err, after it has taken its time.
type lock struct {
	resourcelock.Interface
	clock *clocktesting.FakePassiveClock
	takes time.Duration
	err   error
	// holder is who holds it, and renewed when it was renewed last, as it is read.
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

func TestTheAgeOfTheLease(t *testing.T) {
	ours, released := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}, resourcelock.LeaderElectionRecord{}
	renew := func(l *lease) { _ = l.Update(context.Background(), ours) }
	for _, tt := range []struct {
		name string
		do   func(*lease, *lock)
		want bool
	}{
		{"a lease that was never taken is none", func(*lease, *lock) {}, false},
		{"one that was just made is fresh", func(l *lease, _ *lock) { _ = l.Create(context.Background(), ours) }, true},
		{"one that was renewed is fresh for half of its life", func(l *lease, k *lock) {
			renew(l)
			k.clock.SetTime(k.clock.Now().Add(leaseFresh))
		}, true},
		{"and then no more", func(l *lease, k *lock) {
			renew(l)
			k.clock.SetTime(k.clock.Now().Add(leaseFresh + time.Nanosecond))
		}, false},
		{"the time of the renewal itself counts", func(l *lease, k *lock) {
			k.takes = leaseFresh + time.Second
			renew(l)
		}, false},
		{"a renewal that fails makes nothing fresh", func(l *lease, k *lock) {
			renew(l)
			k.clock.SetTime(k.clock.Now().Add(leaseFresh))
			k.err, k.takes = errors.New("conflict"), time.Second
			renew(l)
		}, false},
		{"one that another holds, since it was deleted by hand, is not ours", func(l *lease, k *lock) {
			renew(l)
			k.holder = "another"
			_, _, _ = l.Get(context.Background())
		}, false},
		{"one that is read as ours is as fresh as before", func(l *lease, k *lock) {
			renew(l)
			k.holder = "us"
			_, _, _ = l.Get(context.Background())
		}, true},
		{"one that could not be read says nothing", func(l *lease, k *lock) {
			renew(l)
			k.holder, k.err = "another", errors.New("no route to host")
			_, _, _ = l.Get(context.Background())
		}, true},
		{"one that was given back is held no more", func(l *lease, _ *lock) {
			renew(l)
			_ = l.Update(context.Background(), released)
		}, false},
		{"also when nobody heard of it", func(l *lease, k *lock) {
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
	t.Run("a machine that stood still is not deceived by its own clock", func(t *testing.T) {
		k := &lock{clock: clocktesting.NewFakePassiveClock(time.Now())}
		l := &lease{Interface: k, clock: k.clock}
		renew(l)
		// Only the calendar has moved, as after a suspension.
		if slept := k.clock.Now().Round(0).Add(time.Minute); l.Fresh(slept) {
			t.Error("it is fresh")
		}
	})
	t.Run("without leader election nothing is ever too old", func(t *testing.T) {
		if l, err := newLease(nil, &options{}); err != nil || !l.Fresh(time.Time{}) {
			t.Errorf("error %v", err)
		}
	})
}
