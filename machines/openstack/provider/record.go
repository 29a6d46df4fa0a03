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

// MostVolumes is the number of volumes in a record from which on no further server is created: the volumes of the former servers must be
// deleted first.
const MostVolumes = 16

// Record is the content of status.providerStatus: a Machine's resources. Its format is compatible with older and newer releases of
// drover. It implements [cloud.Record].
type Record struct {
	HostID   string `json:"hostID,omitempty"`
	ServerID string `json:"serverID,omitempty"`
	Zone     string `json:"zone,omitempty"`
	// PortIDs are in the order of the networks.
	PortIDs      []string `json:"portIDs,omitempty"`
	FloatingIPID string   `json:"floatingIPID,omitempty"`
	// VolumeIDs are the volumes that are deleted with the server (its boot volume), sorted. drover never deletes a volume that is
	// not in the status of a Machine.
	VolumeIDs []string `json:"volumeIDs,omitempty"`
	// EndedVolumes are the volumes of former servers that are known to be gone. They are removed from the stored record.
	EndedVolumes []string `json:"-"`
	// ProjectID and Region are where the Machine's resources are created. They are recorded before the first create. Only in this
	// project does the absence of a resource prove that the resource is gone.
	ProjectID string `json:"projectID,omitempty"`
	Region    string `json:"region,omitempty"`
}

// MergeInto returns status.providerStatus with the record merged into it.
//
// A record without a server changes project and region only. Any other record replaces what is stored, with two exceptions. A
// stored volume stays unless it is among EndedVolumes. The stored ports and floating IP stay while no other ports or floating IP are
// known, because these are listed rarely.
func (r *Record) MergeInto(stored *runtime.RawExtension) *runtime.RawExtension {
	old, readable := read(stored)
	now := *r
	now.EndedVolumes = nil
	if r.ServerID == "" {
		now = old
		now.ProjectID, now.Region = r.ProjectID, r.Region
	} else if readable {
		left := slices.DeleteFunc(slices.Clone(old.VolumeIDs), func(id string) bool { return slices.Contains(r.EndedVolumes, id) })
		volumes := slices.Concat(left, now.VolumeIDs)
		slices.Sort(volumes)
		now.VolumeIDs = slices.Compact(volumes)
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

// read parses a stored record, and reports whether there is a valid one.
func read(stored *runtime.RawExtension) (r Record, readable bool) {
	if stored == nil || json.Unmarshal(stored.Raw, &r) != nil {
		return Record{}, false
	}
	return r, true
}

// Remembered parses the Machine's record. Any content other than project and region means that a server was created for the
// Machine at some time.
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
	if r.ProjectID != "" {
		out.Place = r.ProjectID + " " + r.Region
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
