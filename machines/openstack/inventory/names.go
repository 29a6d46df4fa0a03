package inventory

import (
	"net/url"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
	"github.com/drover-project/drover/machines/openstack/inventory/creates"
	"github.com/drover-project/drover/machines/openstack/inventory/known"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/quota"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// Aliases of the types from the inner packages that the methods of Project take and return. With them, other packages need to
// import only package inventory.
type (
	// Machine is the inventory's view of a Machine.
	Machine = owner.Machine
	// Site is a project in a region.
	Site = owner.Site
	// OwnerTag names the Machine that owns a resource.
	OwnerTag = owner.Tag
	// Port is a port that has a Machine's owner tag.
	Port = addresses.Port
	// PortRow is a port as Neutron lists it.
	PortRow = addresses.PortRow
	// FloatingIP is a floating IP that has a Machine's owner tag.
	FloatingIP = addresses.FloatingIP
	// FloatingIPRow is a floating IP as Neutron lists it.
	FloatingIPRow = addresses.FloatingIPRow
	// Amounts are quantities of what quotas limit.
	Amounts = quota.Amounts
	// Deletion is a server whose deletion must be requested now.
	Deletion = servers.Deletion
	// Change describes what has changed in a project.
	Change = known.Change
	// Statistics are numbers about a project, for metrics.
	Statistics = known.Statistics
)

// The metadata keys of a server's owner tag, and the kinds of resources that have an owner tag.
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

// Names for constants of the inner packages: the times between lists, and how long drover waits for other events.
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
