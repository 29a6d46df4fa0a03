package bootstrap

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// allSystems has a key of each operating system that machine-controller supports. The values are those in the examples of KubeOne and
// machine-controller.
const allSystems = `{
	"distUpgradeOnBoot": false, "disableAutoUpdate": true, "DisableLocksmithD": true, "disableUpdateEngine": false, "provisioningUtility": "ignition",
	"rhelSubscriptionManagerUser": "<< USER >>", "rhelSubscriptionManagerPassword": "hidden", "rhsmOfflineToken": "hidden", "attachSubscription": false,
	"rhelUseSatelliteServer": false, "rhelSatelliteServer": "", "rhelOrganizationName": "", "rhelActivationKey": ""}`

func TestKeysOfOtherOperatingSystemsHaveNoEffect(t *testing.T) {
	for system, own := range map[string][]string{
		"ubuntu":  {"distUpgradeOnBoot"},
		"flatcar": {"disableAutoUpdate", "DisableLocksmithD", "disableUpdateEngine", "provisioningUtility"},
	} {
		t.Run("accepts the keys of other operating systems on "+system+" and warns that they have no effect (MC-9, F-35)", func(t *testing.T) {
			in := input(system, allSystems)
			if _, err := in.Render(); err != nil {
				t.Fatal(err)
			}
			got := Warnings(in.Provider)
			if len(got) != 13-len(own) || !slices.IsSorted(got) {
				t.Errorf("warnings: %q", got)
			}
			text := strings.Join(got, "; ")
			for _, key := range own {
				if strings.Contains(text, "."+key+":") {
					t.Errorf("%s has an effect on %s: %s", key, system, text)
				}
			}
			if !strings.Contains(text, "operatingSystemSpec.rhsmOfflineToken: has no effect on "+system) || strings.Contains(text, "hidden") {
				t.Errorf("warnings: %s", text)
			}
		})
	}
	t.Run("a misspelled key is refused, and the error names the nearest key of the Machine's operating system (MC-9, F-35)", func(t *testing.T) {
		_, err := input("flatcar", `{"distUpgradeOnBoot": true, "disableAutoUpdat": true}`).Render()
		if err == nil || !strings.Contains(err.Error(), "operatingSystemSpec.disableAutoUpdat: unknown field; did you mean disableAutoUpdate?") {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("the value of another operating system's key is not checked (F-35)", func(t *testing.T) {
		if _, err := input("ubuntu", `{"disableAutoUpdate": "maybe"}`).Render(); err != nil {
			t.Error(err)
		}
	})
	t.Run("there are no warnings for an operating system that drover does not know (F-35)", func(t *testing.T) {
		c := &v1alpha1.ProviderConfig{OperatingSystem: "plan9"}
		c.OperatingSystemSpec.Raw = []byte(allSystems)
		if got := Warnings(c); got != nil {
			t.Errorf("warnings: %q", got)
		}
	})
}
