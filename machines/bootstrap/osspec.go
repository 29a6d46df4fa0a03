package bootstrap

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// ubuntuSpec and flatcarSpec are operatingSystemSpec, field by field as machine-controller has them.
type ubuntuSpec struct {
	DistUpgradeOnBoot bool
}

type flatcarSpec struct {
	DisableAutoUpdate, DisableLocksmithD, DisableUpdateEngine bool
	ProvisioningUtility                                       string
}

func (in *Input) ubuntuSpec() (ubuntuSpec, error) {
	var s ubuntuSpec
	return s, in.osSpec(map[string]any{"distUpgradeOnBoot": &s.DistUpgradeOnBoot})
}

func (in *Input) flatcarSpec() (flatcarSpec, error) {
	var s flatcarSpec
	err := in.osSpec(map[string]any{
		"disableAutoUpdate": &s.DisableAutoUpdate, "disableLocksmithD": &s.DisableLocksmithD,
		"disableUpdateEngine": &s.DisableUpdateEngine, "provisioningUtility": &s.ProvisioningUtility,
	})
	if u := s.ProvisioningUtility; err == nil && u != "" && u != "ignition" {
		err = problem("operatingSystemSpec.provisioningUtility %q is not supported: use ignition", u)
	}
	return s, err
}

// osSpec reads the operating system's own part of the provider config strictly, without regard to case.
func (in *Input) osSpec(into map[string]any) error {
	known := slices.Sorted(maps.Keys(into))
	fields, err := v1alpha1.Fields("operatingSystemSpec", in.Provider.OperatingSystemSpec.Raw, known, nil)
	if err != nil {
		return problem("%v", err)
	}
	for _, name := range known {
		if raw, given := fields[name]; given {
			if err := json.Unmarshal(raw, into[name]); err != nil {
				return problem("operatingSystemSpec.%s: %v", name, err)
			}
		}
	}
	return nil
}
