package openstack

import "github.com/drover-project/drover/machines/cloud"

// Placement returns the flavor and the zone of the spec; zero while the spec cannot be read.
func (i *instance) Placement() cloud.Placement {
	if i.spec == nil {
		return cloud.Placement{}
	}
	return cloud.Placement{Flavor: i.spec.Flavor, Zone: i.spec.AvailabilityZone}
}
