package main

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack"
)

// shelf is a cloud with one resource. The cloud records the resources that it was asked to delete.
type shelf struct {
	cloud.Cloud
	scheme    string
	collected []string
}

func (s *shelf) Tagged(context.Context) []cloud.Project {
	return []cloud.Project{{Name: s.scheme, Resources: []cloud.Resource{{Kind: cloud.ResourceServer, ID: s.scheme}}}}
}

func (s *shelf) Collect(_ context.Context, r cloud.Resource) error {
	s.collected = append(s.collected, r.ID)
	return nil
}

func (s *shelf) ServerID(providerID string) cloud.ServerID {
	if len(providerID) < len(s.scheme) || providerID[:len(s.scheme)] != s.scheme {
		return ""
	}
	return cloud.ServerID(providerID)
}

func (s *shelf) IsServerGone(context.Context, string, []string) (bool, error) {
	return s.scheme == "second", nil
}

func TestWhichCloudHandlesAnOrphan(t *testing.T) {
	first, second := &shelf{scheme: "first"}, &shelf{scheme: "second"}
	c := &clouds{list: []namedCloud{{openstack.Name, first}, {"other", second}}}
	t.Run("an orphan is deleted only by the cloud that listed it (MCM-84)", func(t *testing.T) {
		for _, p := range c.Tagged(t.Context()) {
			must(t, c.Collect(t.Context(), p.Resources[0]))
		}
		if len(first.collected) != 1 || first.collected[0] != "first" || len(second.collected) != 1 || second.collected[0] != "second" {
			t.Errorf("the first deleted %v, the second %v", first.collected, second.collected)
		}
	})
	t.Run("only the cloud to which a server's provider ID belongs is asked whether the server is gone (MCM-86)", func(t *testing.T) {
		for providerID, want := range map[string]bool{"first://1": false, "second://1": true} {
			if gone, err := c.IsServerGone(t.Context(), providerID, nil); gone != want || err != nil {
				t.Errorf("%s is gone: %v, %v", providerID, gone, err)
			}
		}
		if gone, err := c.IsServerGone(t.Context(), "aws:///z/i-1", nil); gone || err == nil {
			t.Errorf("a server of nobody's is gone: %v, %v", gone, err)
		}
	})
	t.Run("in observe mode no cloud deletes an orphan, and drover records the deletion as a decision", func(t *testing.T) {
		first.collected = nil
		o := &observer{clock: clocktesting.NewFakePassiveClock(time.Now())}
		must(t, observedCloud{c, o}.Collect(t.Context(), cloud.Resource{Cloud: openstack.Name, Kind: cloud.ResourceServer, ID: "1"}))
		if len(first.collected) > 0 || len(o.decisions) != 1 || o.decisions[0].Verb != "delete server" {
			t.Errorf("deleted %v; noted %v", first.collected, o.decisions)
		}
	})
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
