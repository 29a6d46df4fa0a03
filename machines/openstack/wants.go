package openstack

import "github.com/drover-project/drover/machines/openstack/inventory"

// wants returns what the Machine still needs of what quotas count.
func (i *instance) wants(p *inventory.Project, plan *plan) inventory.Amounts {
	want := inventory.Amounts{inventory.Instances: 1, inventory.Cores: plan.flavor.VCPUs, inventory.RAMMiB: plan.flavor.RAM}
	ports, hasIP := p.Owned(i.machine.UID)
	want[inventory.Ports] = max(0, len(plan.networks)-ports)
	if !hasIP && i.spec.FloatingIPPool != "" && i.machine.FloatingIPID == "" {
		want[inventory.FloatingIPs] = 1
	}
	if i.spec.RootDiskSizeGB > 0 {
		want[inventory.Volumes], want[inventory.VolumeGiB] = 1, i.spec.RootDiskSizeGB
	}
	return want
}
