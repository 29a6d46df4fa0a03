// Package record reads and writes what a Machine's object holds of its resources in the cloud: spec.providerID,
// status.providerStatus and status.addresses. It knows the form of that record, and decides nothing by it. It has no client,
// clock or logger.
package record

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Record is what status.providerStatus holds of a Machine's resources in the cloud.
type Record struct {
	HostID       string   `json:"hostID,omitempty"`
	ServerID     string   `json:"serverID,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	PortIDs      []string `json:"portIDs,omitempty"`
	FloatingIPID string   `json:"floatingIPID,omitempty"`
	cloud.ProviderStatus
}

// maxVolumes bounds how many volumes of replaced servers are recorded.
const maxVolumes = 16

// ServerID returns the ID of the server that spec.providerID names; empty when it names none.
func ServerID(m *v1alpha1.Machine) string {
	return providerid.Server(ptr.Deref(m.Spec.ProviderID, ""))
}

// Of returns the Machine's record; it is zero when there is none.
func Of(m *v1alpha1.Machine) Record {
	r, _ := decode(m.Status.ProviderStatus)
	return r
}

// Volumes returns the IDs of the volumes that a status.providerStatus names. They must be recorded: no list of the cloud shows
// them once the server is gone.
func Volumes(status *runtime.RawExtension) []string {
	r, _ := decode(status)
	return r.VolumeIDs
}

func decode(status *runtime.RawExtension) (r Record, ok bool) {
	if status == nil || json.Unmarshal(status.Raw, &r) != nil {
		return Record{}, false
	}
	return r, true
}

func write(m *v1alpha1.Machine, r Record) {
	if raw, err := json.Marshal(r); err == nil {
		m.Status.ProviderStatus = &runtime.RawExtension{Raw: raw}
	}
}

// HasServer reports whether the record holds more than a project and region: then a server was made once.
func HasServer(m *v1alpha1.Machine) bool {
	if m.Status.ProviderStatus == nil {
		return false
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(m.Status.ProviderStatus.Raw, &all) != nil {
		return true
	}
	delete(all, "projectID")
	delete(all, "region")
	return len(all) > 0
}

// HasPlace reports whether the record has the project and region that the cloud reports. A cloud without projects reports none.
func HasPlace(m *v1alpha1.Machine, f *cloud.Facts) bool {
	known := Of(m)
	return f.ProjectID == "" || known.ProjectID == f.ProjectID && known.Region == f.Region
}

// WritePlace records the project and region in which the Machine's resources are made. It changes nothing while the cloud
// reports none.
func WritePlace(m *v1alpha1.Machine, f *cloud.Facts) {
	if f.ProjectID == "" {
		return
	}
	known := Of(m)
	known.ProjectID, known.Region = f.ProjectID, f.Region
	write(m, known)
}

// WriteServer records a server with what goes with it, and its addresses; nothing when s is nil.
func WriteServer(m *v1alpha1.Machine, s *cloud.Server) {
	if s == nil {
		return
	}
	update(m, Record{
		ServerID: s.ID, Zone: s.Zone, HostID: s.HostID, PortIDs: s.PortIDs, FloatingIPID: s.FloatingIPID,
		ProviderStatus: cloud.ProviderStatus{VolumeIDs: s.VolumeIDs, ProjectID: s.ProjectID, Region: s.Region},
	})
	if len(s.Addresses) == 0 {
		return
	}
	addresses := slices.Clone(s.Addresses)
	slices.SortFunc(addresses, func(a, b corev1.NodeAddress) int {
		return strings.Compare(string(a.Type)+a.Address, string(b.Type)+b.Address)
	})
	m.Status.Addresses = addresses
}

// update writes the record when it differs from the stored one. A volume that was recorded stays: only Release may report that it
// is gone. Ports and floating IP stay while no others are known: they are listed seldom.
func update(m *v1alpha1.Machine, now Record) {
	if old, ok := decode(m.Status.ProviderStatus); ok {
		volumes := slices.Concat(old.VolumeIDs, now.VolumeIDs)
		slices.Sort(volumes)
		volumes = slices.Compact(volumes)
		now.VolumeIDs = volumes[max(0, len(volumes)-maxVolumes):]
		if len(now.PortIDs) == 0 {
			now.PortIDs = old.PortIDs
		}
		now.FloatingIPID = cmp.Or(now.FloatingIPID, old.FloatingIPID)
		if equality.Semantic.DeepEqual(old, now) {
			return
		}
	}
	write(m, now)
}
