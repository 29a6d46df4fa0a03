package membership

import (
	"encoding/json"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Place is what a Machine's spec requests from the cloud: a flavor in a zone.
type Place struct {
	flavor, zone string
	// unknown is set when the spec is in a MachineClass or cannot be read.
	unknown bool
}

// placeOf reads a Machine's provider spec.
func placeOf(m *v1alpha1.Machine) Place {
	source, err := m.Spec.Provider()
	if err != nil || source.Value == nil {
		return Place{unknown: true}
	}
	// The keys are read without regard to case, as everywhere. A value from a Secret or ConfigMap is not a string here.
	var spec struct {
		CloudProviderSpec struct{ Flavor, AvailabilityZone any }
	}
	if json.Unmarshal(source.Value.Raw, &spec) != nil {
		return Place{unknown: true}
	}
	var p Place
	p.flavor, _ = spec.CloudProviderSpec.Flavor.(string)
	p.zone, _ = spec.CloudProviderSpec.AvailabilityZone.(string)
	return p
}

// Concerns reports whether a back-off for that flavor and zone holds for the place. An empty value stands for any.
func (p Place) Concerns(flavor, zone string) bool {
	return p.unknown || alike(flavor, p.flavor) && alike(zone, p.zone)
}

// alike reports whether a value may be the short one; an empty value may be any.
func alike(short, value string) bool { return short == "" || value == "" || short == value }
