package known

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/addresses"
	"github.com/drover-project/drover/machines/openstack/inventory/creates"
	"github.com/drover-project/drover/machines/openstack/inventory/massdeletion"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/quota"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// Options are what New needs. All but Stores are required.
type Options struct {
	Cluster owner.Cluster
	// Site is the project and the region.
	Site owner.Site
	// Machines holds the Machines that asked for their cloud side.
	Machines owner.Machines
	// Began is when this process started to list. The previous leader makes no calls after it.
	Began time.Time
	// Stores: what the mass-deletion guard holds is stored, and no loss is believed before that.
	Stores bool
}

// Project is what is known of one project. Its parts are exported for what concerns one part alone; what concerns several is a method
// of the Project.
type Project struct {
	Servers   *servers.Cache
	Addresses *addresses.Store
	Creates   *creates.InDoubt
	Quota     *quota.Book
	Guard     *massdeletion.Guard

	cluster  owner.Cluster
	site     owner.Site
	machines owner.Machines
	began    time.Time
	// uses are the Machines whose ports and floating IPs are in use by a call at this moment.
	uses map[types.UID]use
	// stamp is the cloud's time of the last list; lastFull and lastList, on our clock, when the last complete one and the
	// last one at all were begun; fulls how many complete ones there have been.
	stamp              time.Time
	lastFull, lastList time.Time
	fulls              int
	// listedAddresses is when ports and floating IPs were listed last; zero: never.
	listedAddresses time.Time
	// failures in a row of listing, the last of them, and since when. outdated: that is for so long that Machines show it.
	failures     int
	failure      error
	failingSince time.Time
	outdated     bool
}

// use is what a call under way does with the ports and floating IPs of a Machine.
type use int

const (
	// unused: nothing.
	unused use = iota
	// making: something is made for the Machine, maybe on them.
	making
	// releasing: one of them is deleted.
	releasing
)

// New returns a Project of which nothing is known.
func New(o Options) *Project {
	p := &Project{
		Addresses: addresses.New(), Creates: creates.New(), Quota: quota.New(servers.FastPeriod), Guard: massdeletion.New(o.Stores),
		cluster: o.Cluster, site: o.Site, machines: o.Machines, began: o.Began, uses: map[types.UID]use{},
	}
	p.Servers = servers.New(o.Cluster, servers.Hooks{
		Leaving: func(k *servers.Known) bool {
			m, _ := p.machines.Get(k.Machine())
			return m.Leaving
		},
		Remembered: func(k *servers.Known) bool {
			return p.Guard.Holds(k.ID) || k.Machine() != "" && p.machines.Naming(k.ID) == k.Machine()
		},
		Awaited: func(k *servers.Known) bool { return p.knows(k.Machine()) },
	})
	return p
}

// IsSynced reports whether all lists have been seen since the start: before that no absence may be believed.
func (p *Project) IsSynced() bool { return !p.listedAddresses.IsZero() && p.fulls > 0 }

// Failure returns the error of the last list while lists fail.
func (p *Project) Failure() error { return p.failure }

// knows reports whether a Machine with that UID asked for its cloud side.
func (p *Project) knows(uid types.UID) bool {
	_, ok := p.machines.Get(uid)
	return ok
}

// isOurs reports whether a server is one of this cluster: it has the cluster's ID, or belongs to a Machine that we know
// (machine-controller's servers have no cluster ID), or such a Machine expects it.
func (p *Project) isOurs(k *servers.Known) bool {
	uid := k.Machine()
	return uid != "" && (p.cluster.Has(k.Tags()) || k.IsExpected() || p.knows(uid))
}

// CountLosses counts the losses. It reports whether there is something new to be stored for the mass-deletion guard.
func (p *Project) CountLosses(now time.Time) bool { return p.Guard.Count(now, p.Servers, p.isOurs) }

// failedQuotas records the quotas because of which servers of this cluster, among these IDs, went to ERROR.
func (p *Project) failedQuotas(ids []string, now time.Time) {
	for _, id := range ids {
		k := p.Servers.ByID(id)
		if k == nil || k.Gone || k.Status != servers.StatusError || !p.isOurs(k) {
			continue
		}
		if e := client.JudgeServer(id, k.Fault.Message); e.Class == fault.Quota {
			p.Quota.Failed(k.Machine(), e, now)
		}
	}
}

// unsettled returns a Transient error about something that the next lists will settle.
func unsettled(format string, args ...any) error {
	e := fault.New(fault.Transient, fault.CodeUnsettled, format, args...)
	e.RetryAfter = servers.FastPeriod
	return e
}
