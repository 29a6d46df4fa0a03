package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// osSpec is an operatingSystemSpec, with the fields of machine-controller. Fields that the operating system does not have are not set.
type osSpec struct {
	DistUpgradeOnBoot                                         bool
	DisableAutoUpdate, DisableLocksmithD, DisableUpdateEngine bool
	ProvisioningUtility                                       string
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

// Warnings returns one sentence for each key of operatingSystemSpec that is set and that the operating system does not have, and for each
// entry of sshPublicKeys without a key, sorted. drover accepts them, but they have no effect. machine-controller stores and ignores
// unknown keys of operatingSystemSpec.
func Warnings(config *v1alpha1.ProviderConfig) []string {
	if config == nil || osFields[config.OperatingSystem] == nil {
		return nil
	}
	var out []string
	var all map[string]json.RawMessage
	_ = json.Unmarshal(config.OperatingSystemSpec.Raw, &all)
	foreign := foreignFields(config.OperatingSystem)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch value := all[key]; {
		case v1alpha1.Spelling(key, osFields[config.OperatingSystem]) != "", v1alpha1.IsUnset(value):
		case v1alpha1.Spelling(key, foreign) != "":
			out = append(out, fmt.Sprintf("operatingSystemSpec.%s: has no effect on %s; it may be removed", key, config.OperatingSystem))
		default:
			advice := "remove it"
			if near := v1alpha1.Nearest(key, osFields[config.OperatingSystem], 1); len(near) > 0 {
				advice = "did you mean " + near[0] + "?"
			}
			out = append(out, fmt.Sprintf("operatingSystemSpec.%s: unknown field, which has no effect; %s", key, advice))
		}
	}
	// The creation of the user data reports what is wrong with the document.
	if spec, _ := (&Input{Provider: config}).osSpec(); spec.ProvisioningUtility == cloudInit {
		out = append(out, "operatingSystemSpec.provisioningUtility: cloud-init has no effect, because flatcar gets Ignition; it may be removed")
	}
	if n := config.Network; n != nil {
		for field, text := range map[string]string{"cidr": n.CIDR, "gateway": n.Gateway} {
			if text != "" {
				out = append(out, fmt.Sprintf("network.%s: has no effect, because a server gets its address from its port; it may be removed", field))
			}
		}
	}
	for i, entry := range config.SSHPublicKeys {
		if len(keysOf(entry)) == 0 {
			out = append(out, fmt.Sprintf("sshPublicKeys[%d]: contains no key; it may be removed", i))
		}
	}
	slices.Sort(out)
	return out
}

const cloudInit = "cloud-init"

// osSpec reads the operating system's own part of the provider config, regardless of the case of keys. Its error names everything that is
// wrong.
func (in *Input) osSpec() (s osSpec, err error) {
	known, raw := osFields[in.Provider.OperatingSystem], in.Provider.OperatingSystemSpec.Raw
	into := map[string]any{
		"distUpgradeOnBoot": &s.DistUpgradeOnBoot, "disableAutoUpdate": &s.DisableAutoUpdate, "disableLocksmithD": &s.DisableLocksmithD,
		"disableUpdateEngine": &s.DisableUpdateEngine, "provisioningUtility": &s.ProvisioningUtility,
	}
	var all map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &all) != nil {
		return s, problem("operatingSystemSpec is not a JSON object")
	}
	fields, problems := v1alpha1.Fields("operatingSystemSpec", raw, known, slices.Collect(maps.Keys(all)))
	for _, name := range known {
		if raw, given := fields[name]; given && json.Unmarshal(raw, into[name]) != nil {
			problems = append(problems, problem("operatingSystemSpec.%s: %s is not allowed: use %s", name, raw, kindOf(into[name])))
		}
	}
	if u := s.ProvisioningUtility; len(problems) == 0 && u != "" && u != "ignition" && u != cloudInit {
		problems = append(problems, problem("operatingSystemSpec.provisioningUtility %q is not supported: use ignition", u))
	}
	return s, together(problems...)
}

// kindOf describes the values that a field may have.
func kindOf(field any) string {
	if _, flag := field.(*bool); flag {
		return "true or false, without quotes"
	}
	return "a text"
}
