package machine_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// inProject returns a bench whose cloud reports the project p1.
func inProject(t *testing.T, change func(*v1alpha1.Machine)) *bench {
	b := newBench(t, change)
	b.cloud.project = "p1"
	return b
}

// recorded returns the record of resources in the Machine's status.
func (b *bench) recorded() string {
	if s := b.read().Status.ProviderStatus; s != nil {
		return string(s.Raw)
	}
	return ""
}

func TestTheProjectInAMachinesStatus(t *testing.T) {
	t.Run("one write records the project and adds the finalizers before anything is created in the cloud (F-17)", func(t *testing.T) {
		b := inProject(t, nil)
		first := ""
		b.cloud.during = func(string) {
			if m := b.read(); first == "" {
				first = b.recorded()
				if len(m.Finalizers) != 2 || b.written.made["patch *v1alpha1.Machine"] != 1 {
					t.Errorf("finalizers %v, writes %v", m.Finalizers, b.written.made)
				}
			}
		}
		b.pass()
		if first != `{"projectID":"p1"}` {
			t.Errorf("before the first create the record is %q", first)
		}
	})
	t.Run("drover writes no finalizers before the project is known (F-17)", func(t *testing.T) {
		b := inProject(t, nil)
		b.cloud.unsynced = true
		b.pass()
		if m := b.read(); len(m.Finalizers) != 0 || b.written.all() != 0 {
			t.Errorf("finalizers %v, writes %v", m.Finalizers, b.written.made)
		}
	})
	t.Run("drover does not write the project and the finalizers again when the Machine's set has written them (F-17)", func(t *testing.T) {
		b := inProject(t, func(m *v1alpha1.Machine) {
			owned(m)
			m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
			m.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"projectID":"p1"}`)}
		})
		b.cloud.during = func(string) {
			if n := b.written.made["patch *v1alpha1.Machine"]; n != 0 {
				t.Errorf("%d writes before the first create", n)
			}
		}
		b.pass()
	})
	t.Run("the project is written before anything is created in the cloud, even if the Machine already has finalizers (F-17)", func(t *testing.T) {
		b := inProject(t, func(m *v1alpha1.Machine) {
			m.Finalizers = []string{v1alpha1.FinalizerServer, v1alpha1.FinalizerNode}
		})
		b.cloud.during = func(string) {
			if got := b.recorded(); got != `{"projectID":"p1"}` {
				t.Errorf("before the first create the record is %q", got)
			}
		}
		b.pass()
	})
	t.Run("a Machine with an invalid spec can be deleted when its status names a project but no server, because drover made none (F-17)", func(t *testing.T) {
		b := inProject(t, nil)
		b.cloud.full = fault.New(fault.Quota, fault.CodeQuotaExceeded, "no room")
		b.pass()
		b.cloud.refuse["m"] = fault.New(fault.Invalid, fault.CodeInvalidSpec, "ConfigMap ns/c does not exist")
		b.end()
		b.pass()
		if m := b.read(); m.Name != "" {
			t.Errorf("the Machine still exists: %+v", m.Status)
		}
	})
	t.Run("a Machine's deletion waits while its project may hold its resources, and the Event of a forced deletion names the project (F-17)", func(t *testing.T) {
		b := inProject(t, nil)
		b.cloud.full = fault.New(fault.Transient, fault.CodeUnsettled, "no answer")
		b.pass()
		b.cloud.refuse["m"] = fault.New(fault.Auth, fault.CodeCredentialsMissing, "something of this Machine may exist in project p1")
		b.end()
		b.shown()
		if c := find(b.read(), v1alpha1.ConditionDeleting); c.Reason != "CloudNotUsable" || !strings.Contains(c.Message, "project p1") {
			t.Errorf("%+v", c)
		}
		b.annotate(v1alpha1.AnnotationForceDelete, "true")
		b.pass()
		if got := b.events(); b.read().Name != "" || !strings.Contains(got, "may be left in project p1") {
			t.Errorf("machine %q, events %q", b.read().Name, got)
		}
	})
}
