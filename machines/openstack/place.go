package openstack

import "github.com/drover-project/drover/machines/cloud"

// Place says which flavor is asked for, and where; empty while the spec cannot be read.
func (i *instance) Place() cloud.Place {
	if i.spec == nil {
		return cloud.Place{}
	}
	return cloud.Place{Flavor: i.spec.Flavor, Zone: i.spec.AvailabilityZone}
}
