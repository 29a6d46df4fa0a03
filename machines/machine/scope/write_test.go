package scope

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

func TestWhenChangesOfAMachineAreWritten(t *testing.T) {
	t.Run("writes a change that is not urgent only after 90 seconds (F-57)", func(t *testing.T) {
		h := newHarness(t)
		s := h.open()
		if err := s.Finish(t.Context()); err != nil || h.patches != 0 || s.RequeueAfter != 90*time.Second {
			t.Fatalf("error %v, %d writes, again after %v; want no write, and another look after 1m30s", err, h.patches, s.RequeueAfter)
		}
		h.clock.SetTime(h.clock.Now().Add(90 * time.Second))
		if err := h.open().Finish(t.Context()); err != nil || h.patches != 1 {
			t.Errorf("error %v, %d writes; want one after 1m30s", err, h.patches)
		}
	})
	t.Run("writes an urgent change at the end of the reconcile, and does not write the change again", func(t *testing.T) {
		h := newHarness(t)
		s := h.open()
		s.Machine.Spec.ProviderID = ptr.To("openstack:///0a1b2c3d-0000-4000-8000-00000000abcd")
		for range 2 {
			if err := s.Finish(t.Context()); err != nil || h.patches != 1 {
				t.Fatalf("error %v, %d writes; want one", err, h.patches)
			}
		}
	})
	t.Run("before a resource is created, writes any change, even one that is not urgent", func(t *testing.T) {
		h := newHarness(t)
		s := h.open()
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil || h.patches != 0 {
			t.Fatalf("error %v, %d writes; want none", err, h.patches)
		}
		s.Machine.Status.Phase = ptr.To(v1alpha1.PhasePending)
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil || h.patches != 1 {
			t.Errorf("error %v, %d writes; want one", err, h.patches)
		}
	})
	t.Run("starts no reconcile, and so writes nothing, while the cache does not show drover's last write to the Machine", func(t *testing.T) {
		h := newHarness(t)
		before := h.read()
		s := h.open()
		s.Machine.Finalizers = []string{v1alpha1.FinalizerServer}
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil {
			t.Fatal(err)
		}
		if h.store.Open(before) != nil {
			t.Error("Open() returned a scope for the old Machine")
		}
	})
}

func TestAnEventAboutAChangeIsRecordedOnceAfterTheChangeIsWritten(t *testing.T) {
	h := newHarness(t)
	h.refusal = errors.New("refused")
	s := h.open()
	s.Machine.Finalizers = []string{v1alpha1.FinalizerServer}
	s.WarnOnWrite("DrainBlocked", "so")
	if err := s.WriteAhead(t.Context(), BeforeCreating); err == nil || len(h.events.Events) != 0 {
		t.Fatalf("error %v, %d Events; want none while the write fails", err, len(h.events.Events))
	}
	h.refusal = nil
	for range 2 {
		s.Machine.Finalizers = append(s.Machine.Finalizers, v1alpha1.FinalizerNode)
		if err := s.WriteAhead(t.Context(), BeforeCreating); err != nil || len(h.events.Events) != 1 {
			t.Fatalf("error %v, %d Events; want one with the first write", err, len(h.events.Events))
		}
	}
}

func TestEachTimeANodeStopsBeingReadyIsCountedOnce(t *testing.T) {
	h := newHarness(t)
	for range 3 {
		for _, c := range []v1alpha1.MachineCondition{
			{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue, Reason: lifecycle.ReasonNodeReady},
			{Type: v1alpha1.ConditionReady, Status: corev1.ConditionFalse, Reason: lifecycle.ReasonNodeNotReady, Message: "KubeletNotReady: PLEG"},
			{Type: v1alpha1.ConditionReady, Status: corev1.ConditionUnknown, Reason: lifecycle.ReasonNodeNotReady, Message: "NodeStatusUnknown"},
		} {
			s := h.open()
			s.Machine.Status.Conditions = []v1alpha1.MachineCondition{c}
			if err := s.WriteAhead(t.Context(), BeforeChangingNode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := testutil.ToFloat64(h.store.NotReady); got != 3 || len(h.events.Events) != 3 {
		t.Fatalf("the metric shows %v changes, and there are %d Events; want 3 of each (F-144)", got, len(h.events.Events))
	}
	if got := <-h.events.Events; !strings.Contains(got, "Warning NodeNotReady KubeletNotReady: PLEG") {
		t.Errorf("the Event is %q", got)
	}
}
