package inventory

import (
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
)

// Record is the content of a Machine's status.providerStatus.
type Record struct{ provider.Record }

// RecordOf returns the record of a Machine; zero when there is none.
func RecordOf(m *v1alpha1.Machine) Record { return Record{provider.RecordOf(m)} }

// Site returns the project and region in which the Machine's resources are created; zero when they are not recorded.
func (r *Record) Site() state.Site { return state.Site{Project: r.ProjectID, Region: r.Region} }

// ServerIDOf returns the ID of the server in spec.providerID; empty when there is none.
func ServerIDOf(m *v1alpha1.Machine) string {
	return provider.ServerIDOf(ptr.Deref(m.Spec.ProviderID, ""))
}
