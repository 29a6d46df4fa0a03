package scenario

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

func TestSandboxTrialsOfOneConfigurationFollowEachOtherAndLeaveTheCallersFlagsUnchanged(t *testing.T) {
	var seen []Setting
	given := sandbox.Options{AutoscalerFlags: append(make([]string, 0, 8), "--v=5")}
	for _, trial := range Trials() {
		if len(seen) == 0 || seen[len(seen)-1] != trial.Setting {
			if slices.Contains(seen, trial.Setting) {
				t.Errorf("%s comes apart from the others of its setting", trial.Name)
			}
			seen = append(seen, trial.Setting)
		}
		o := given
		trial.Setting.Apply(&o)
		if len(o.AutoscalerFlags) < 2 || o.AutoscalerFlags[0] != "--v=5" || o.Replicas != 2 {
			t.Errorf("%s: got %+v", trial.Setting, o)
		}
		if o.Boots(openstack.Server{Name: silent + "-1"}) || !o.Boots(openstack.Server{Name: "free-1"}) {
			t.Errorf("%s: the wrong servers stay silent", trial.Setting)
		}
	}
	if len(given.AutoscalerFlags[:cap(given.AutoscalerFlags)]) != 8 || given.AutoscalerFlags[:2][1] != "" {
		t.Errorf("a setting wrote into the flags that were given: %q", given.AutoscalerFlags[:3])
	}
}

func TestASandboxTrialRecordsThePeakSizeOfEachGroupAndOfAllGroupsTogether(t *testing.T) {
	h := highs{each: sizes{}}
	h.see(sizes{"a": 2, "b": 1})
	h.see(sizes{"a": 0, "b": 4})
	if h.sum != 4 || h.each["a"] != 2 || h.each["b"] != 4 {
		t.Errorf("got %+v", h)
	}
}

func TestASandboxTrialChangesOnlyTheCloudProviderSpecOfAGroup(t *testing.T) {
	raw, err := ChangedSpec([]byte(`{"operatingSystem":"ubuntu","cloudProviderSpec":{"flavor":"a","serverGroupID":"g"}}`), func(cloud map[string]any) {
		cloud["flavor"] = "b"
		delete(cloud, "serverGroupID")
	})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if cloud, ok := got["cloudProviderSpec"].(map[string]any); !ok || len(cloud) != 1 || cloud["flavor"] != "b" || got["operatingSystem"] != "ubuntu" {
		t.Errorf("got %s", raw)
	}
}
