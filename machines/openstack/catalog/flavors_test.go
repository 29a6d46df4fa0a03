package catalog

import "testing"

func TestFlavorWithALocalDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		flavor Flavor
		want   bool
	}{
		"an extra spec with local storage":   {Flavor{Disk: 50, ExtraSpecs: map[string]string{"quota:Storage": "Local"}}, true},
		"an extra spec with other storage":   {Flavor{resource: resource{Name: "l1.small"}, Disk: 50, ExtraSpecs: map[string]string{"storage": "ceph"}}, false},
		"a name like those of local flavors": {Flavor{resource: resource{Name: "l1.small"}, Disk: 50}, true},
		"another name":                       {Flavor{resource: resource{Name: "m1.small"}, Disk: 50}, false},
		"a flavor without a disk":            {Flavor{resource: resource{Name: "l1.small"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.flavor.isLocal(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
