package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// ubuntuSpec and flatcarSpec are the operatingSystemSpec of each system, with the fields of machine-controller.
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

// osFields lists the keys of operatingSystemSpec for each operating system, in current and earlier releases of machine-controller and
// operating-system-manager. KubeOne and machine-controller's examples write keys of several systems at the same time.
var osFields = map[string][]string{
	"ubuntu":     {"distUpgradeOnBoot"},
	"flatcar":    {"disableAutoUpdate", "disableLocksmithD", "disableUpdateEngine", "provisioningUtility"},
	"coreos":     {"disableAutoUpdate", "disableLocksmithD", "disableUpdateEngine"},
	"amzn2":      {"distUpgradeOnBoot"},
	"centos":     {"distUpgradeOnBoot"},
	"rockylinux": {"distUpgradeOnBoot"},
	"sles":       {"distUpgradeOnBoot"},
	"rhel": {
		"distUpgradeOnBoot", "rhelSubscriptionManagerUser", "rhelSubscriptionManagerPassword", "rhsmOfflineToken",
		"attachSubscription", "rhelUseSatelliteServer", "rhelSatelliteServer", "rhelOrganizationName", "rhelActivationKey",
	},
}

// foreignFields returns the keys that belong to operating systems other than the given one.
func foreignFields(system string) []string {
	all := slices.Concat(slices.Collect(maps.Values(osFields))...)
	all = slices.DeleteFunc(all, func(field string) bool { return slices.Contains(osFields[system], field) })
	slices.Sort(all)
	return slices.Compact(all)
}

// Warnings returns one sentence for each key of operatingSystemSpec that belongs only to other operating systems, sorted. drover
// accepts such keys, but they have no effect.
func Warnings(config *v1alpha1.ProviderConfig) []string {
	var all map[string]json.RawMessage
	if config == nil || osFields[config.OperatingSystem] == nil || json.Unmarshal(config.OperatingSystemSpec.Raw, &all) != nil {
		return nil
	}
	foreign := foreignFields(config.OperatingSystem)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if v1alpha1.Spelling(key, foreign) != "" && string(all[key]) != "null" {
			out = append(out, fmt.Sprintf("operatingSystemSpec.%s: has no effect on %s; it may be removed", key, config.OperatingSystem))
		}
	}
	return out
}

// osSpec reads the operating system's own part of the provider config strictly, regardless of the case of keys. It leaves out keys of
// other operating systems.
func (in *Input) osSpec(into map[string]any) error {
	known := slices.Sorted(maps.Keys(into))
	fields, err := v1alpha1.Fields("operatingSystemSpec", in.Provider.OperatingSystemSpec.Raw, known, foreignFields(in.Provider.OperatingSystem))
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
