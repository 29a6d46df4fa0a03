package openstack

import "testing"

func TestNumberOfGPUsOfAFlavor(t *testing.T) {
	for _, tc := range []struct {
		name  string
		specs map[string]string
		want  int64
	}{
		{"is 0 without extra specs", nil, 0},
		{"includes the devices of a PCI alias whose name contains gpu", map[string]string{"pci_passthrough:alias": "gpu-a100:2"}, 2},
		{"includes the devices of a PCI alias whose name contains nvidia", map[string]string{"pci_passthrough:alias": "Nvidia-T4:1,mellanox:1"}, 1},
		{"includes one device for such a PCI alias when the extra spec has no number", map[string]string{"pci_passthrough:alias": "gpu-a100"}, 1},
		{"does not include the devices of a PCI alias for network cards", map[string]string{"pci_passthrough:alias": "mellanox:4"}, 0},
		{"includes virtual GPUs", map[string]string{"resources:VGPU": "1"}, 1},
		{"includes physical GPUs, and virtual GPUs in a numbered resource group", map[string]string{"resources2:VGPU": "1", "resources:PGPU": "1", "resources:VCPU": "8"}, 2},
		{"is 0 when the numbers in the extra specs are invalid", map[string]string{"resources:VGPU": "many", "pci_passthrough:alias": "gpu-a100:-3"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := gpusOf(tc.specs); got != tc.want {
				t.Errorf("%d GPUs, want %d", got, tc.want)
			}
		})
	}
}
