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

// set is the number of settings of allSystems that are set and that a system does not have. false and "" count as not set.
var set = map[string]int{"ubuntu": 6, "flatcar": 3}

func TestSettingsOfOtherOperatingSystemsInOperatingSystemSpecHaveNoEffect(t *testing.T) {
	for system, own := range map[string][]string{
		"ubuntu":  {"distUpgradeOnBoot"},
		"flatcar": {"disableAutoUpdate", "DisableLocksmithD", "disableUpdateEngine", "provisioningUtility"},
	} {
		t.Run("drover accepts the settings of other operating systems for "+system+" and warns that they have no effect (MC-9, F-35)", func(t *testing.T) {
			in := input(system, allSystems)
			if _, err := in.Render(); err != nil {
				t.Fatal(err)
			}
			got := Warnings(in.Provider)
			if len(got) != set[system] || !slices.IsSorted(got) {
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
	t.Run("a misspelled setting has no effect, and the warning suggests a setting of the Machine's operating system (MC-9, F-116)", func(t *testing.T) {
		in := input("flatcar", `{"distUpgradeOnBoot": true, "disableAutoUpdat": true}`)
		if _, err := in.Render(); err != nil {
			t.Fatal(err)
		}
		if got := Warnings(in.Provider); !slices.Contains(got, "operatingSystemSpec.disableAutoUpdat: unknown field, which has no effect; did you mean disableAutoUpdate?") {
			t.Errorf("warnings: %q", got)
		}
	})
	t.Run("the value of a setting of another operating system is not checked (F-35)", func(t *testing.T) {
		if _, err := input("ubuntu", `{"disableAutoUpdate": "maybe"}`).Render(); err != nil {
			t.Error(err)
		}
	})
	t.Run("drover warns about no setting when it does not know the operating system (F-35)", func(t *testing.T) {
		c := &v1alpha1.ProviderConfig{OperatingSystem: "plan9"}
		c.OperatingSystemSpec.Raw = []byte(allSystems)
		if got := Warnings(c); got != nil {
			t.Errorf("warnings: %q", got)
		}
	})
}
