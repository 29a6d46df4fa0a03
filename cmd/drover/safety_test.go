package main

import (
	"context"
	"testing"
	"time"

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
