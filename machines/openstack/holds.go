package openstack

import "github.com/drover-project/drover/machines/openstack/inventory"

// Holds keeps across restarts what the mass guards of the projects hold.
type Holds = inventory.Holds

// Held is what the mass guard of one project holds.
type Held = inventory.Held

// HoldsKey tells a project in a region from all others.
type HoldsKey = inventory.HoldsKey
