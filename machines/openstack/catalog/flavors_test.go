package catalog

import "testing"

func TestWhichFlavorsHaveALocalDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		flavor Flavor
		want   bool
	}{
		"a flavor has a local disk when an extra spec says that its storage is local":                    {Flavor{Disk: 50, ExtraSpecs: map[string]string{"quota:Storage": "Local"}}, true},
		"a flavor has no local disk when an extra spec names other storage, whatever the flavor's name":  {Flavor{resource: resource{Name: "l1.small"}, Disk: 50, ExtraSpecs: map[string]string{"storage": "ceph"}}, false},
		"a flavor whose name begins with l1. has a local disk when no extra spec describes the storage":  {Flavor{resource: resource{Name: "l1.small"}, Disk: 50}, true},
		"a flavor whose name begins with m1. has no local disk when no extra spec describes the storage": {Flavor{resource: resource{Name: "m1.small"}, Disk: 50}, false},
		"a flavor whose disk size is 0 has no local disk, whatever its name":                             {Flavor{resource: resource{Name: "l1.small"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.flavor.isLocal(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
