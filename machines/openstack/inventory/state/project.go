package state

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Project is what is known of one project. A method that concerns only one part belongs to the type of that part, which is an
// exported field; the methods of Project concern several parts.
type Project struct {
	Servers   *Servers
	Addresses *Addresses
	Quotas    *Quotas

	cluster   Cluster
	site      Site
	machines  Machines
	began     time.Time
	noteFault func(serverID string, code int, text string)
	creates   creates
	// used has the Machines whose ports and floating IPs a call in progress uses: a resource that may use them is being created, or one
	// of them is being released.
	used sets.Set[types.UID]
	// stamp is the cloud's time of the last list, and ahead is how far the cloud's clock is ahead of drover's. lastFull and lastList are
	// when the last complete list and the last list of any kind began, on drover's clock. fulls is the number of complete lists.
	stamp              time.Time
	ahead              time.Duration
	lastFull, lastList time.Time
	fulls              int
	// listedAddresses is when ports and floating IPs were last listed, or a later time when that failed since; zero when they never
	// were.
	listedAddresses time.Time
	// failures is the number of consecutive failed lists, failure is the last error, and failingSince is when the first of these
	// lists failed. outdated is true when lists have failed for so long that the Machines' status shows it.
	failures     int
	failure      error
	failingSince time.Time
	outdated     bool
	// current is since when lists succeed again after outdated was true; zero when it never was.
	current time.Time
}

// New returns a Project without any known resources. machines has the Machines for which Cloud.Instance was called. began is when this
// process started to list: the previous leader makes no calls after that time. noteFault is called with the fault of each server of this
// cluster that went to ERROR; it may be nil.
func New(cluster Cluster, site Site, machines Machines, began time.Time, noteFault func(serverID string, code int, text string)) *Project {
	return &Project{
		Servers: newServers(cluster, machines), Addresses: newAddresses(), Quotas: newQuotas(),
		cluster: cluster, site: site, machines: machines, began: began, noteFault: noteFault,
		creates: creates{}, used: sets.Set[types.UID]{},
	}
}

// clockError is the unit of the difference between the cloud's clock and drover's. A difference below half of it counts as none, because a
// list takes some time as well.
const clockError = time.Minute

// onOwnClock converts a time on the cloud's clock into one on drover's clock, with which it may be compared.
func (p *Project) onOwnClock(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-p.ahead)
}

// Listed reports whether servers, ports and floating IPs have all been listed since the start. Before that, an absence proves nothing.
// failure is the error of the last list; nil when it succeeded.
func (p *Project) Listed() (done bool, failure error) { return p.isSynced(), p.failure }

func (p *Project) isSynced() bool { return !p.listedAddresses.IsZero() && p.fulls > 0 }

// readFaults notes why servers went to ERROR, and records the exhausted quotas among the causes. It checks the servers with these IDs,
// if they belong to this cluster.
func (p *Project) readFaults(ids []string, now time.Time) {
	for _, id := range ids {
		k := p.Servers.byID[id]
		if k == nil || k.gone() || k.Status != statusError || !p.Servers.isOurs(k) {
			continue
		}
		if e := client.ServerFault(id, k.Fault.Code, k.Fault.Message); e.Class == fault.Quota {
			// Nova finds out only after the create request that the quota for volumes is exceeded. It does not say by how much.
			p.Quotas.refused(k.machine(), e, Amounts{1, 1, 1, 1, 1, 1, 1}, now)
		}
		if p.noteFault != nil {
			p.noteFault(id, k.Fault.Code, k.Fault.Message)
		}
	}
}

// Unsettled returns a Transient error for a state that the next lists or look-ups will resolve.
func Unsettled(format string, args ...any) *fault.Error {
	e := fault.New(fault.Transient, fault.CodeUnsettled, format, args...)
	e.RetryAfter = FastPeriod
	return e
}

// Statistics are numbers of a project, for metrics.
type Statistics struct {
	// Listed is false before the first successful list of servers. Age is the time since the start of the last successful list.
	Listed bool
	Age    time.Duration
	// Servers is the number of known servers of this cluster; Stuck is the number of those that still exist 10 minutes after their
	// deletion was first requested; Held is the number of Machines that have lost their servers, while these are
	// too many to be believed.
	Servers, Stuck, Held int
	// Quotas is the number of services that drover watches because one of their quotas is exhausted.
	Quotas int
}

// Statistics returns the current numbers.
func (p *Project) Statistics(now time.Time) Statistics {
	s := Statistics{
		Listed: !p.lastList.IsZero(), Age: now.Sub(p.lastList), Quotas: len(p.Quotas.watches),
	}
	if lost := p.losses(math.MaxInt); lost > fewLosses {
		s.Held = lost
	}
	for _, k := range p.Servers.byID {
		if k.gone() || !p.Servers.isOurs(k) {
			continue
		}
		s.Servers++
		if k.isStuck(now) {
			s.Stuck++
		}
	}
	return s
}
