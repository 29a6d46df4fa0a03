package cloud

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// text is a cloud provider's record. It replaces the stored record unless both are equal.
type text string

func (r text) MergeInto(stored *runtime.RawExtension) *runtime.RawExtension {
	if stored != nil && string(stored.Raw) == string(r) {
		return stored
	}
	return &runtime.RawExtension{Raw: []byte(r)}
}

func TestWriteServerFillsProviderStatusAndAddressesOfTheMachine(t *testing.T) {
	m := &v1alpha1.Machine{}
	RecordServer(m, nil)
	if m.Status.ProviderStatus != nil {
		t.Errorf("without a server %s is recorded", m.Status.ProviderStatus.Raw)
	}
	RecordServer(m, &Server{Record: text("s"), Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.2"}, {Type: "ExternalIP", Address: "192.0.2.1"}}})
	RecordServer(m, &Server{})
	if got := string(m.Status.ProviderStatus.Raw); got != "s" {
		t.Errorf("got %q, want the record of the server", got)
	}
	want := []corev1.NodeAddress{{Type: "ExternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "10.0.0.2"}}
	if diff := cmp.Diff(want, m.Status.Addresses); diff != "" {
		t.Error(diff)
	}
}

func TestAKnownProjectCountsAsRecordedOnlyOnceTheMachinesStatusContainsIt(t *testing.T) {
	m, unknown, known := &v1alpha1.Machine{}, &Facts{}, &Facts{Place: text("p")}
	RecordPlace(m, unknown)
	if !HasRecordedPlace(m, unknown) || m.Status.ProviderStatus != nil {
		t.Error("an unknown place is recorded or awaited")
	}
	if HasRecordedPlace(m, known) {
		t.Error("the place counts as recorded before it is (F-17)")
	}
	RecordPlace(m, known)
	if !HasRecordedPlace(m, known) {
		t.Error("the place does not count as recorded")
	}
}
