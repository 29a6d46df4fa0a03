package inventory

import (
	"net/url"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
	"github.com/drover-project/drover/machines/openstack/inventory/creates"
	"github.com/drover-project/drover/machines/openstack/inventory/known"
	"github.com/drover-project/drover/machines/openstack/inventory/massdeletion"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/quota"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// These types of the inner packages are what a Project is called with and answers. Other packages import the inventory alone.
type (
	// Machine describes a Machine to the inventory.
	Machine = owner.Machine
	// Site is a project in a region.
	Site = owner.Site
	// OwnerTag names the Machine that a resource belongs to.
	OwnerTag = owner.Tag
	// Port is a port that has a Machine's owner tag.
	Port = addresses.Port
	// PortRow is a port as Neutron lists it.
	PortRow = addresses.PortRow
	// FloatingIP is a floating IP that has a Machine's owner tag.
	FloatingIP = addresses.FloatingIP
	// FloatingIPRow is a floating IP as Neutron lists it.
	FloatingIPRow = addresses.FloatingIPRow
	// Amounts are numbers of what quotas count.
	Amounts = quota.Amounts
	// Held is what the mass-deletion guard of one project keeps.
	Held = massdeletion.Held
	// Deletion is a server whose deletion is to be requested now.
	Deletion = servers.Deletion
	// Change is what is new in a project.
	Change = known.Change
	// Statistics are numbers about a project, for metrics.
	Statistics = known.Statistics
)

// The keys of a server's metadata that name its owner, and the kinds of resources with an owner tag.
const (
	MetadataMachineUID = owner.MetadataMachineUID
	MetadataClusterID  = owner.MetadataClusterID
	PortKind           = owner.PortKind
	FloatingIPKind     = owner.FloatingIPKind
	ServerKind         = owner.ServerKind
)

// The indexes of Amounts.
const (
	Instances   = quota.Instances
	Cores       = quota.Cores
	RAMMiB      = quota.RAMMiB
	Ports       = quota.Ports
	FloatingIPs = quota.FloatingIPs
	Volumes     = quota.Volumes
	VolumeGiB   = quota.VolumeGiB
)

// How often lists are asked for, and how long drover waits for what.
const (
	FastPeriod      = servers.FastPeriod
	RestPeriod      = servers.RestPeriod
	FullPeriod      = servers.FullPeriod
	OwnedPeriod     = known.AddressPeriod
	DetachedAfter   = servers.DetachedAfter
	DuplicateAge    = servers.DuplicateAge
	AdoptAgain      = servers.TagAgain
	SettleTime      = creates.SettleTime
	SecondLookAfter = creates.SecondLookAfter
	QuotaPeriod     = quota.Period
	RetainedFor     = quota.RetainedFor
)

// PortListing returns the listing of the ports that match a query.
func PortListing(query url.Values) client.Listing { return calls.PortListing(query) }

// FloatingIPListing returns the listing of the floating IPs that match a query.
func FloatingIPListing(query url.Values) client.Listing { return calls.FloatingIPListing(query) }
