package machine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

func TestAQuotaErrorStartsABackOff(t *testing.T) {
	b := newBench(t, nil)
	b.cloud.full = fault.New(fault.Quota, fault.CodeQuotaExceeded, "Quota exceeded for cores: Requested 4, but already used 20 of 20 cores")

	inOrder(t, "shows the cloud's code and message after the first reconcile (MC-48, MCM-37, CAPI-10)", func(t *testing.T) {
		result := b.pass()
		m := b.read()
		if ptr.Deref(m.Status.ErrorReason, "") != "QuotaExceeded" || !strings.Contains(*m.Status.ErrorMessage, "20 of 20 cores") || result.RequeueAfter != 30*time.Second || *m.Status.Phase != v1alpha1.PhasePending {
			t.Errorf("result %v, status %+v", result, m.Status)
		}
		if c := find(m, v1alpha1.ConditionServerReady); c.Status != corev1.ConditionFalse || c.Reason != "QuotaExceeded" {
			t.Errorf("condition %+v", c)
		}
	})
	inOrder(t, "tries to create the server once per back-off step and writes nothing, however often the Machine is reconciled", func(t *testing.T) {
		before := b.read().ResourceVersion
		for range 100 {
			b.pass()
		}
		if n := b.cloud.count("EnsureServer"); n != 1 {
			t.Errorf("%d attempts", n)
		}
		if m := b.read(); m.ResourceVersion != before {
			t.Errorf("it was written: %s, then %s: %+v", before, m.ResourceVersion, m.Status)
		}
	})
	inOrder(t, "doubles the wait after each failed attempt up to five minutes, so that an hour has at most 16 attempts", func(t *testing.T) {
		for elapsed := time.Duration(0); elapsed < time.Hour; elapsed += time.Second {
			b.clock.SetTime(b.clock.Now().Add(time.Second))
			b.pass()
		}
		if n := b.cloud.count("EnsureServer"); n < 13 || n > 16 {
			t.Errorf("%d attempts in an hour", n)
		}
	})
	inOrder(t, "tries to create the server at most once after drover restarts", func(t *testing.T) {
		n := b.cloud.count("EnsureServer")
		b.restart()
		b.pass()
		if more := b.cloud.count("EnsureServer") - n; more > 1 {
			t.Errorf("%d attempts", more)
		}
	})
	inOrder(t, "records one Event, however often the failure is repeated (MC-80, CAPI-60, MCM-113)", func(t *testing.T) {
		if n := len(b.memory.events.Events); n != 1 {
			t.Errorf("%d events", n)
		}
	})
	inOrder(t, "creates the server once the quota has room (CAPI-22)", func(t *testing.T) {
		b.cloud.full = nil
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.pass()
		m := b.read()
		if m.Spec.ProviderID == nil || m.Status.ErrorReason != nil || *m.Status.Phase != v1alpha1.PhaseProvisioning {
			t.Errorf("spec %+v, status %+v", m.Spec, m.Status)
		}
	})
}

func TestAServerInErrorIsReplaced(t *testing.T) {
	b := newBench(t, owned)
	b.pass()
	first := *b.read().Spec.ProviderID
	b.cloud.change("u", func(s *fakeServer) {
		s.State, s.Fault = cloud.ServerError, fault.New(fault.NoCapacity, fault.CodeNoValidHost, "No valid host was found.")
	})
	b.pass()
	inOrder(t, "deletes the server, and keeps the Machine (MC-49)", func(t *testing.T) {
		m := b.read()
		if m.DeletionTimestamp != nil || m.Spec.ProviderID != nil || ptr.Deref(m.Status.ErrorReason, "") != "NoValidHost" || b.cloud.count("DeleteServer") != 1 {
			t.Errorf("machine %+v, %d deletions", m, b.cloud.count("DeleteServer"))
		}
	})
	inOrder(t, "creates nothing before the back-off is over, also in a new process", func(t *testing.T) {
		b.pass()
		b.restart()
		b.clock.SetTime(b.clock.Now().Add(29 * time.Second))
		b.pass()
		if n := b.cloud.count("EnsureServer"); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
	inOrder(t, "creates another server after the back-off (MCM-42)", func(t *testing.T) {
		b.clock.SetTime(b.clock.Now().Add(time.Second))
		b.pass()
		m := b.read()
		if n := b.cloud.count("EnsureServer"); n != 2 || *m.Spec.ProviderID == first || m.Status.ErrorReason != nil {
			t.Errorf("%d attempts, provider ID %s, status %+v", n, *m.Spec.ProviderID, m.Status)
		}
	})
}

func TestAMachineUsesItsExistingServer(t *testing.T) {
	t.Run("sets the provider ID to the server that an earlier drover process created without recording it (MCM-36, CAPI-18, MC-43)", func(t *testing.T) {
		b := newBench(t, func(m *v1alpha1.Machine) { m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode} })
		instance, err := b.cloud.Instance(t.Context(), b.read())
		if err != nil {
			t.Fatal(err)
		}
		made, err := instance.EnsureServer(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		b.pass()
		if m := b.read(); ptr.Deref(m.Spec.ProviderID, "") != made.ProviderID || b.cloud.count("EnsureServer") != 1 {
			t.Errorf("provider ID %v, %d calls", m.Spec.ProviderID, b.cloud.count("EnsureServer"))
		}
	})
	t.Run("when spec.providerID names a server that does not exist, one reconcile corrects it to the Machine's existing server (MCM-40)", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		made := *b.read().Spec.ProviderID
		m := b.read()
		m.Spec.ProviderID = ptr.To("openstack:///00000000-0000-4000-8000-00000000dead")
		b.update(m)
		b.pass()
		if got := *b.read().Spec.ProviderID; got != made {
			t.Errorf("got provider ID %s, want %s", got, made)
		}
	})
	t.Run("creates no server while the inventory is incomplete, because the Machine may already have a server", func(t *testing.T) {
		b := newBench(t, nil)
		b.cloud.unsynced = true
		if result := b.pass(); result.RequeueAfter == 0 || b.cloud.made != 0 {
			t.Errorf("result %v, %d servers", result, b.cloud.made)
		}
	})
}

func TestWhatHappensToAMachineWhoseServerIsGone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.Machine)
		gone   bool
	}{
		{"a Machine of a set is deleted, so that the set creates a new Machine (MC-66, CAPI-33)", owned, true},
		{"a Machine without an owner is kept with the phase Failed", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.change)
			b.pass()
			b.cloud.change("u", func(s *fakeServer) { s.exists = false })
			b.pass()
			m := b.read()
			if deleting := m.DeletionTimestamp != nil; deleting != tt.gone || !tt.gone && *m.Status.Phase != v1alpha1.PhaseFailed {
				t.Fatalf("machine %+v", m)
			}
			if tt.gone {
				b.pass()
				if m := b.read(); m.Name != "" || b.cloud.count("Release") != 1 || b.cloud.count("DeleteServer") != 0 {
					t.Errorf("machine %+v, %d releases", m, b.cloud.count("Release"))
				}
			}
		})
	}
}

func TestWhatHappensToAMachineAtTheJoinTimeout(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*v1alpha1.Machine)
		deleted bool
	}{
		{"the Machine of a deployment is replaced ten minutes after its server was created (MC-57, CAPI-25, MCM-29, MCM-39)", deployed, true},
		{"the Machine of a set without a deployment is replaced (MC-57, F-52)", owned, true},
		{"a Machine without an owner is kept with the phase Failed (MC-57)", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.change)
			b.clock.SetTime(b.clock.Now().Add(time.Hour)) // the Machine is older than its server; the timeout must count from the server's creation
			b.pass()
			b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
			b.clock.SetTime(b.clock.Now().Add(9*time.Minute + 59*time.Second))
			if result := b.pass(); b.read().DeletionTimestamp != nil || result.RequeueAfter != time.Second {
				t.Fatalf("result %v, machine %+v", result, b.read())
			}
			b.clock.SetTime(b.clock.Now().Add(time.Second))
			b.pass()
			m := b.read()
			if (m.DeletionTimestamp != nil) != tt.deleted || ptr.Deref(m.Status.ErrorReason, "") != "JoinTimeout" || !tt.deleted && *m.Status.Phase != v1alpha1.PhaseFailed {
				t.Errorf("machine %+v", m)
			}
		})
	}
}

func TestDeletionOfAMachineWhoseCredentialsAreMissing(t *testing.T) {
	t.Run("the deletion ends only when it is forced, and then an Event names what may be left (MC-65, CAPI-45)", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		b.cloud.refuse["m"] = fault.New(fault.Auth, fault.CodeCredentialsMissing, "Secret kube-system/openstack is not there")
		if err := b.memory.client.Delete(t.Context(), b.read()); err != nil {
			t.Fatal(err)
		}
		b.pass()
		m := b.read()
		if c := find(m, v1alpha1.ConditionDeleting); c.Reason != "CloudNotUsable" || !strings.Contains(c.Message, "Secret kube-system/openstack") {
			t.Fatalf("condition %+v", c)
		}
		m.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true"}
		if err := b.memory.client.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		b.pass()
		if m := b.read(); m.Name != "" {
			t.Errorf("the Machine still exists: %+v", m)
		}
		last := ""
		for len(b.memory.events.Events) > 0 {
			last = <-b.memory.events.Events
		}
		if !strings.Contains(last, "may be left") {
			t.Errorf("event %q", last)
		}
	})
}

func TestAReadyMachineIsNotWrittenAgain(t *testing.T) {
	t.Run("further reconciles of the Machine write nothing, even after drover restarts", func(t *testing.T) {
		b := newBench(t, nil)
		b.pass()
		b.cloud.change("u", func(s *fakeServer) { b.cloud.active(s) })
		b.pass()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: corev1.NodeSpec{ProviderID: *b.read().Spec.ProviderID},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		if err := b.memory.client.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		b.pass()
		settled := b.read()
		if !isReady(settled) {
			t.Fatalf("status %+v", settled.Status)
		}
		for range 10 {
			if result := b.pass(); result.RequeueAfter != 0 {
				t.Errorf("the next reconcile is after %v", result.RequeueAfter)
			}
		}
		if m := b.read(); m.ResourceVersion != settled.ResourceVersion {
			t.Errorf("version %s, then %s", settled.ResourceVersion, m.ResourceVersion)
		}
		if n := fmt.Sprint(b.cloud.count("EnsureServer")); n != "1" {
			t.Errorf("%s servers", n)
		}
	})
}
