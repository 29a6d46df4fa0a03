package memorycloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

// Name is the cloudProvider of this cloud's provider specs.
const Name = "memory"

const scheme = "memory://"

// providerID returns the provider ID of a server (box): memory://ROOM#NUMBER.
func providerID(room string, box int) string { return fmt.Sprintf("%s%s#%d", scheme, room, box) }

// boxIn returns the number of the server that a provider ID names, or 0 when it names none.
func boxIn(providerID string) int {
	rest, found := strings.CutPrefix(providerID, scheme)
	_, number, hasNumber := strings.Cut(rest, "#")
	box, err := strconv.Atoi(number)
	if !found || !hasNumber || err != nil || box < 1 {
		return 0
	}
	return box
}

// keyOf returns the server ID for a server's number. The room is not part of the ID.
func keyOf(box int) cloud.ServerID { return cloud.ServerID("box-" + strconv.Itoa(box)) }

// pure implements [cloud.Provider].
type pure struct{}

// ServerID returns the server ID that a provider ID contains. It is empty when the provider ID names no server.
func (pure) ServerID(providerID string) cloud.ServerID {
	if box := boxIn(providerID); box > 0 {
		return keyOf(box)
	}
	return ""
}

// Placement returns the size (flavor) and the room (zone) that the spec names.
func (pure) Placement(spec *v1alpha1.MachineSpec) (cloud.Placement, bool) {
	s, _, err := readSpec(spec)
	return cloud.Placement{Flavor: s.Size, Zone: s.Room}, err == nil
}

// IDPrefix returns memory://ROOM#.
func (pure) IDPrefix(providerID string) string {
	if boxIn(providerID) == 0 {
		return ""
	}
	room, _, _ := strings.Cut(providerID, "#")
	return room + "#"
}

// KubeletIDPrefix returns an empty prefix, because a server of this cloud does not know its own number.
func (pure) KubeletIDPrefix(*v1alpha1.ProviderConfig, map[string]int) string { return "" }

// Remembered returns what status.providerStatus records about the Machine's server.
func (pure) Remembered(m *v1alpha1.Machine) cloud.Remembered {
	r := recordOf(m.Status.ProviderStatus)
	return cloud.Remembered{Server: r.Box > 0, BeforeDeletion: r.Room}
}

// MayBeLeft returns a text that names the server (box) and the port (cable) of a Machine, which may still exist in the
// cloud.
func (pure) MayBeLeft(m *v1alpha1.Machine) string {
	r := recordOf(m.Status.ProviderStatus)
	return fmt.Sprintf("box %d and the cable of Machine %s may be left in room %q", r.Box, m.UID, r.Room)
}

// record is the content of status.providerStatus.
type record struct {
	Room string `json:"room"`
	Box  int    `json:"box,omitempty"`
}

func recordOf(stored *runtime.RawExtension) (r record) {
	if stored == nil || json.Unmarshal(stored.Raw, &r) != nil {
		return record{}
	}
	return r
}

// MergeInto adds the room to the stored record, and the server's number once there is a server.
func (r record) MergeInto(stored *runtime.RawExtension) *runtime.RawExtension {
	old := recordOf(stored)
	if r.Box == 0 {
		r.Box = old.Box
	}
	if r == old {
		return stored
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return stored
	}
	return &runtime.RawExtension{Raw: raw}
}

// spec is a cloudProviderSpec of this cloud.
type spec struct {
	// Size is small or large. Room is the zone of the server.
	Size, Room string
}

// readSpec reads the provider spec of a Machine or template.
func readSpec(of *v1alpha1.MachineSpec) (s spec, config *v1alpha1.ProviderConfig, err error) {
	source, err := of.Provider()
	if err != nil {
		return s, nil, err
	}
	if source.Value == nil {
		return s, nil, fmt.Errorf("spec.providerSpec.value is missing")
	}
	config, wrong := v1alpha1.ParseProviderConfig("spec.providerSpec.value", source.Value.Raw)
	if len(wrong) > 0 {
		return s, nil, errors.Join(wrong...)
	}
	if err := json.Unmarshal(config.CloudProviderSpec.Raw, &s); err != nil {
		return s, nil, fmt.Errorf("cloudProviderSpec: %w", err)
	}
	if _, known := sizes[s.Size]; !known || s.Room == "" {
		return s, nil, fmt.Errorf("cloudProviderSpec: give a size, small or large, and a room")
	}
	return s, config, nil
}
