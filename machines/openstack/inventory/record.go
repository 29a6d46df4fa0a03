package inventory

import (
	"encoding/json"

	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Record is what drover keeps in a Machine's status.providerStatus.
type Record struct {
	ServerID     string `json:"serverID"`
	FloatingIPID string `json:"floatingIPID"`
	cloud.ProviderStatus
}

// RecordOf returns the record of a Machine; zero when there is none.
func RecordOf(m *v1alpha1.Machine) Record {
	var r Record
	if s := m.Status.ProviderStatus; s == nil || json.Unmarshal(s.Raw, &r) != nil {
		return Record{}
	}
	return r
}

// Site returns where the server was made; zero when it is not recorded.
func (r *Record) Site() Site { return Site{Project: r.ProjectID, Region: r.Region} }

// ServerIDOf returns the ID of the server that spec.providerID names; empty when it names none.
func ServerIDOf(m *v1alpha1.Machine) string {
	return providerid.Server(ptr.Deref(m.Spec.ProviderID, ""))
}
