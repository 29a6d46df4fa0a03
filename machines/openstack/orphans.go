package openstack

import "github.com/drover-project/drover/machines/openstack/inventory"

// Marked returns all servers, ports and floating IPs of this cluster, as the shared lists have them. It makes no call.
func (c *Cloud) Marked() []inventory.Resource {
	var all []inventory.Resource
	for _, p := range c.allProjects() {
		all = append(all, p.Resources()...)
	}
	return all
}
