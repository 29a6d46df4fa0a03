package openstack

import "testing"

func TestGPUsOfAFlavor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		specs map[string]string
		want  int64
	}{
		{"a flavor without extra specs has no GPU", nil, 0},
		{"a PCI alias in the operator's list counts", map[string]string{"pci_passthrough:alias": "a100:2"}, 2},
		{"an alias whose name contains gpu counts", map[string]string{"pci_passthrough:alias": "Nvidia-T4:1,mellanox:1"}, 1},
		{"an alias without a number counts as one GPU", map[string]string{"pci_passthrough:alias": "a100"}, 1},
		{"a network card does not count", map[string]string{"pci_passthrough:alias": "mellanox:4"}, 0},
		{"a virtual GPU counts", map[string]string{"resources:VGPU": "1"}, 1},
		{"a virtual GPU in a numbered group counts", map[string]string{"resources2:VGPU": "1", "resources:PGPU": "1", "resources:VCPU": "8"}, 2},
		{"invalid numbers count as 0", map[string]string{"resources:VGPU": "many", "pci_passthrough:alias": "a100:-3"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := gpusOf(tc.specs, []string{"a100"}); got != tc.want {
				t.Errorf("%d GPUs, want %d", got, tc.want)
			}
		})
	}
}
