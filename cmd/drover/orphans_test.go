package main

import (
	"context"
	"testing"
	"time"

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

func (s *shelf) IsServerGone(context.Context, string, string) (bool, error) {
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
			if gone, err := c.IsServerGone(t.Context(), providerID, ""); gone != want || err != nil {
				t.Errorf("%s is gone: %v, %v", providerID, gone, err)
			}
		}
		if gone, err := c.IsServerGone(t.Context(), "aws:///z/i-1", ""); gone || err == nil {
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
