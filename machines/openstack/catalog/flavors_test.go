package catalog

import "testing"

func TestLocalFlavors(t *testing.T) {
	for name, tc := range map[string]struct {
		flavor Flavor
		want   bool
	}{
		"an extra spec names local storage":            {Flavor{Disk: 50, ExtraSpecs: map[string]string{"quota:Storage": "Local"}}, true},
		"an extra spec names other storage":            {Flavor{resource: resource{Name: "l1.small"}, Disk: 50, ExtraSpecs: map[string]string{"storage": "ceph"}}, false},
		"the name begins like that of local flavors":   {Flavor{resource: resource{Name: "l1.small"}, Disk: 50}, true},
		"the name is another one":                      {Flavor{resource: resource{Name: "m1.small"}, Disk: 50}, false},
		"the flavor has no disk, so none can be local": {Flavor{resource: resource{Name: "l1.small"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.flavor.isLocal(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
