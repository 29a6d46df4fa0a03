package catalog

import "testing"

func TestFlavorWithALocalDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		flavor Flavor
		want   bool
	}{
		"a flavor with an extra spec for local storage has a local disk":    {Flavor{Disk: 50, ExtraSpecs: map[string]string{"quota:Storage": "Local"}}, true},
		"a flavor with an extra spec for other storage has no local disk":   {Flavor{resource: resource{Name: "l1.small"}, Disk: 50, ExtraSpecs: map[string]string{"storage": "ceph"}}, false},
		"a flavor with a name like those of local flavors has a local disk": {Flavor{resource: resource{Name: "l1.small"}, Disk: 50}, true},
		"a flavor with another name has no local disk":                      {Flavor{resource: resource{Name: "m1.small"}, Disk: 50}, false},
		"a flavor without a disk has no local disk":                         {Flavor{resource: resource{Name: "l1.small"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.flavor.isLocal(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
