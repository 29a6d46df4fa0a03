package openstack

// wants returns what the Machine still needs of what quotas count.
func (i *instance) wants(p *project, plan *plan) Amounts {
	want := Amounts{Instances: 1, Cores: plan.flavor.VCPUs, RAMMiB: plan.flavor.RAM}
	ports, hasIP := p.Owned(i.machine.UID)
	want[Ports] = max(0, len(plan.networks)-ports)
	if !hasIP && i.spec.FloatingIPPool != "" && i.machine.FloatingIPID == "" {
		want[FloatingIPs] = 1
	}
	if i.spec.RootDiskSizeGB > 0 {
		want[Volumes], want[VolumeGiB] = 1, i.spec.RootDiskSizeGB
	}
	return want
}
