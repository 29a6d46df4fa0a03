package handover

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestAWaitingDroverReportsOnceThatAnotherProgramRenewsTheLease(t *testing.T) {
	recorder := events.NewFakeRecorder(9)
	s, err := NewStandby("kube-system", "machine-controller", logr.Discard(), nil)
	if err != nil {
		t.Fatal(err)
	}
	renewed := func(second int) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: "mc", RenewTime: metav1.Unix(int64(second), 0)}
	}
	s.Seen(renewed(1))
	s.RecordTo(recorder)
	s.Seen(renewed(1))
	if n := testutil.ToFloat64(s.metric); n != 1 || len(recorder.Events) != 0 {
		t.Errorf("a lease that nobody renews: the metric is %v, and there are %d Events; want 1 and none", n, len(recorder.Events))
	}
	s.Seen(renewed(2))
	s.Seen(renewed(3))
	if len(recorder.Events) != 1 {
		t.Errorf("a lease that is renewed: there are %d Events, want 1", len(recorder.Events))
	}
	s.Seen(nil)
	if n := testutil.ToFloat64(s.metric); n != 0 {
		t.Errorf("the metric is %v once the lease is free", n)
	}
}

func TestTheEventOfADroverThatWaitsForTheLeaseNamesTheLeaseHolder(t *testing.T) {
	for holder, want := range map[string]struct{ reason, text, not string }{
		"machine-controller_1": {"MachineControllerRuns", "stop machine-controller (kubectl -n kube-system", "namespace"},
		Holder("elsewhere"):    {"AnotherDroverRuns", "the drover in namespace elsewhere leads", "stop machine-controller"},
	} {
		recorder := events.NewFakeRecorder(9)
		s, err := NewStandby("kube-system", "machine-controller", logr.Discard(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.RecordTo(recorder)
		for second := range int64(2) {
			s.Seen(&resourcelock.LeaderElectionRecord{HolderIdentity: holder, RenewTime: metav1.Unix(second, 0)})
		}
		text := <-recorder.Events
		if strings.Contains(text, "--name") {
			t.Errorf("%s leads, and the Event advises --name, with which both programs would keep all sets at their size (F-61): %q", holder, text)
		}
		if !strings.Contains(text, want.reason) || !strings.Contains(text, want.text) || strings.Contains(text, want.not) {
			t.Errorf("%s leads, and the Event is %q", holder, text)
		}
	}
}
