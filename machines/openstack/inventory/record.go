package inventory

import (
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/providerid"
)

// Record is the content of a Machine's status.providerStatus.
type Record struct{ provider.Record }

// RecordOf returns the record of a Machine; zero when there is none.
func RecordOf(m *v1alpha1.Machine) Record { return Record{provider.RecordOf(m)} }

// Site returns where the server was created; zero when it is not recorded.
func (r *Record) Site() Site { return Site{Project: r.ProjectID, Region: r.Region} }

// ServerIDOf returns the ID of the server in spec.providerID; empty when there is none.
func ServerIDOf(m *v1alpha1.Machine) string {
	return providerid.Server(ptr.Deref(m.Spec.ProviderID, ""))
}
