package openstack

import "github.com/drover-project/drover/machines/openstack/inventory"

// Holds keeps across restarts what the mass guards of the projects hold; Held is what one of them holds.
type (
	Holds = inventory.Holds
	Held  = inventory.Held
)
