package provider

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// mostVolumes bounds how many volumes of replaced servers are remembered.
const mostVolumes = 16

// Record is what status.providerStatus holds of a Machine's resources. Older and newer releases of drover read each other's
// records. It implements [cloud.Record].
type Record struct {
	HostID   string `json:"hostID,omitempty"`
	ServerID string `json:"serverID,omitempty"`
	Zone     string `json:"zone,omitempty"`
	// PortIDs are in the order of the networks.
	PortIDs      []string `json:"portIDs,omitempty"`
	FloatingIPID string   `json:"floatingIPID,omitempty"`
	// VolumeIDs are the volumes that end with the server (its boot volume), sorted. A volume that no status names is never
	// touched.
	VolumeIDs []string `json:"volumeIDs,omitempty"`
	// ProjectID and Region are where the Machine's resources are, or are to be made: they are recorded before the first one is
	// made. Only there an absence can prove that a resource is gone.
	ProjectID string `json:"projectID,omitempty"`
	Region    string `json:"region,omitempty"`
}

// MergeInto returns status.providerStatus with what the record says.
//
// A record without a server changes project and region only. Any other replaces what is stored, but for volumes: one that was
// recorded once stays, since only Release may say that it is gone. Ports and floating IP stay while no others are known:
// they are listed seldom.
func (r *Record) MergeInto(stored *runtime.RawExtension) *runtime.RawExtension {
	old, readable := read(stored)
	now := *r
	if r.ServerID == "" {
		now = old
		now.ProjectID, now.Region = r.ProjectID, r.Region
	} else if readable {
		volumes := slices.Concat(old.VolumeIDs, now.VolumeIDs)
		slices.Sort(volumes)
		volumes = slices.Compact(volumes)
		now.VolumeIDs = volumes[max(0, len(volumes)-mostVolumes):]
		if len(now.PortIDs) == 0 {
			now.PortIDs = old.PortIDs
		}
		now.FloatingIPID = cmp.Or(now.FloatingIPID, old.FloatingIPID)
	}
	if readable && equality.Semantic.DeepEqual(old, now) {
		return stored
	}
	raw, err := json.Marshal(now)
	if err != nil {
		return stored
	}
	return &runtime.RawExtension{Raw: raw}
}

// RecordOf returns the record in a Machine's status; zero when there is none.
func RecordOf(m *v1alpha1.Machine) Record {
	r, _ := read(m.Status.ProviderStatus)
	return r
}

// read returns a stored record, and reports whether there is one that can be read.
func read(stored *runtime.RawExtension) (r Record, readable bool) {
	if stored == nil || json.Unmarshal(stored.Raw, &r) != nil {
		return Record{}, false
	}
	return r, true
}

// Remembered reads the Machine's record. Anything in it beside project and region says that a server was made once.
func (Provider) Remembered(m *v1alpha1.Machine) cloud.Remembered {
	stored := m.Status.ProviderStatus
	if stored == nil {
		return cloud.Remembered{}
	}
	r, _ := read(stored)
	volumes := strings.Join(r.VolumeIDs, " ")
	out := cloud.Remembered{
		HostID: r.HostID, AtOnce: volumes,
		BeforeDeletion: strings.Join([]string{r.FloatingIPID, volumes, r.ProjectID, r.Region}, "\n"),
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(stored.Raw, &all) != nil {
		out.Server = true
		return out
	}
	delete(all, "projectID")
	delete(all, "region")
	out.Server = len(all) > 0
	return out
}
