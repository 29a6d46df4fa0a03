package main

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/cloud"
)

// shelf is a cloud that counts the resources that it was asked to delete.
type shelf struct {
	cloud.Cloud
	collected int
}

func (s *shelf) Collect(context.Context, cloud.Resource) error {
	s.collected++
	return nil
}

func TestObserveModeDeletesNoOrphan(t *testing.T) {
	s, o := &shelf{}, &observer{clock: clocktesting.NewFakePassiveClock(time.Now())}
	must(t, observedCloud{s, o}.Collect(t.Context(), cloud.Resource{Kind: cloud.ResourceServer, ID: "1"}))
	if s.collected > 0 || len(o.decisions) != 1 || o.decisions[0].Verb != "delete server" {
		t.Errorf("deleted %d; noted %v, want the deletion as a decision", s.collected, o.decisions)
	}
}

func TestWhatDroverKnowsAboutTheLastChangeOfLeader(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	k := &lock{clock: clocktesting.NewFakePassiveClock(noon), holder: "another"}
	l := &lease{Interface: k, clock: k.clock}
	t.Run("the times of the last change are unknown before the leader lease was read (MCM-82)", func(t *testing.T) {
		if before, since := l.Leading(); !before.IsZero() || !since.IsZero() {
			t.Errorf("got %s and %s", before, since)
		}
	})
	t.Run("drover knows when the previous leader last renewed the lease and when this process took it (MCM-82)", func(t *testing.T) {
		yesterday := noon.Add(-24 * time.Hour)
		k.renewed = metav1.NewTime(yesterday)
		_, _, _ = l.Get(t.Context())
		must(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}))
		k.clock.SetTime(noon.Add(time.Hour))
		must(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}))
		if before, since := l.Leading(); !before.Equal(yesterday) || !since.Equal(noon) {
			t.Errorf("got %s and %s", before, since)
		}
	})
	t.Run("the times of the last change are unknown without leader election (MCM-82)", func(t *testing.T) {
		if before, since := (*lease)(nil).Leading(); !before.IsZero() || !since.IsZero() {
			t.Errorf("got %s and %s", before, since)
		}
	})
}
