package inventory

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Options are what New needs. Clock, Session, Machines, Changed and Other are required.
type Options struct {
	// Clock times lists and waits.
	Clock clock.Clock
	// Session is what lists are asked with until Use names another one.
	Session *client.Session
	// Endpoint is the URL of the Keystone that the project is one of. Site is the project and the region.
	Endpoint string
	Site     Site
	// ClusterID is written on everything that is made.
	ClusterID string
	// Machines holds the Machines that asked for their cloud side.
	Machines Machines
	// Reader lists all Machines. nil: only those in Machines are known.
	Reader ctrlclient.Reader
	// Holds keeps across restarts what the mass guard holds. nil: it ends with the process.
	Holds Holds
	// Collect reports whether an operator has confirmed the loss of many servers at once. nil: nobody can.
	Collect func(ctx context.Context) (bool, error)
	// Changed is called with what is new, after each list.
	Changed func(ctx context.Context, p *Project, c Change)
	// Other returns a session of other credentials for the same project; nil when there is none.
	Other func(p *Project, than *client.Session) *client.Session
}

// Project follows the servers, ports, floating IPs and quotas of one project in one region, for all Machines that live there,
// whatever credentials they use.
type Project struct {
	clock    clock.Clock
	owners   ownership
	machines Machines
	changed  func(ctx context.Context, p *Project, c Change)
	other    func(p *Project, than *client.Session) *client.Session
	reader   ctrlclient.Reader
	holds    Holds
	lifted   func(ctx context.Context) (bool, error)
	kicks    chan struct{}
	// creates receives a value when a server was ordered.
	creates chan struct{}
	// began is when this process started polling. The previous leader makes no calls after it.
	began time.Time
	// site is the project and the region.
	site     Site
	endpoint string

	mu      sync.Mutex
	session *client.Session
	servers *serverCache
	guard   guard
	quota   *quotaBook
	// stamp is the cloud's time of the last list; lastFull and lastList, on our clock, when the last complete one and the
	// last one at all were begun.
	stamp              time.Time
	lastFull, lastList time.Time
	fulls              int
	// listedOwned is when ports and floating IPs were listed last; zero: never.
	listedOwned time.Time
	ports       map[types.UID]map[int]Port
	floating    map[types.UID]FloatingIP
	// seenIPs are floating IPs without an owner tag of this cluster that were seen on a server, by ID.
	seenIPs map[string]seenIP
	// uses are the Machines whose ports and floating IPs are in use by a call at this moment.
	uses map[types.UID]use
	// attempts are creates with an unknown outcome, by the tag of what they make.
	attempts map[OwnerTag]attempt
	// failures in a row of listing.
	failures int
	failure  error
}

// New returns a project of which nothing is known before Run.
func New(o Options) *Project {
	p := &Project{
		clock: o.Clock, owners: ownership{o.ClusterID}, machines: o.Machines, changed: o.Changed, other: o.Other, reader: o.Reader,
		holds: o.Holds, lifted: o.Collect, kicks: make(chan struct{}, 1), creates: make(chan struct{}, 1), began: o.Clock.Now(), endpoint: o.Endpoint, site: o.Site,
		session: o.Session, servers: newServerCache(ownership{o.ClusterID}), guard: newGuard(), quota: newQuotaBook(),
		ports: map[types.UID]map[int]Port{}, floating: map[types.UID]FloatingIP{}, uses: map[types.UID]use{}, attempts: map[OwnerTag]attempt{},
	}
	p.servers.leaving = func(k *knownServer) bool {
		m, _ := p.machines.Get(k.machine())
		return m.Leaving
	}
	p.servers.remembered = func(k *knownServer) bool {
		return p.guard.held[k.ID] || k.machine() != "" && p.machines.Naming(k.ID) == k.machine()
	}
	return p
}

// Endpoint returns the URL of the project's Keystone.
func (p *Project) Endpoint() string { return p.endpoint }

// Site returns the project and the region.
func (p *Project) Site() Site { return p.site }

// Listed reports whether all lists have been seen since the start: before that no absence may be believed. failure is the error
// of the last list while lists fail.
func (p *Project) Listed() (done bool, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced(), p.failure
}

// synced reports whether all lists have been seen since the start. The caller holds the lock.
func (p *Project) synced() bool { return !p.listedOwned.IsZero() && p.fulls > 0 }

// Use has lists asked for with these credentials from now on: the newest ones are likely to stay valid longest.
func (p *Project) Use(s *client.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
}

// Kick asks for a list soon.
func (p *Project) Kick() {
	select {
	case p.kicks <- struct{}{}:
	default:
	}
}

// expectBuild asks for a list soon enough to follow a server that was just ordered.
func (p *Project) expectBuild() {
	select {
	case p.creates <- struct{}{}:
	default:
	}
}

// Run lists until ctx ends.
func (p *Project) Run(ctx context.Context) {
	for ctx.Err() == nil {
		p.wait(ctx, p.poll(ctx))
	}
}

// wait sleeps for that long, or until FastPeriod after the first kick, or buildPeriod after the first create.
func (p *Project) wait(ctx context.Context, period time.Duration) {
	due := p.clock.Now().Add(period)
	sooner := func(period time.Duration) {
		if soon := p.clock.Now().Add(period); soon.Before(due) {
			due = soon
		}
	}
	for {
		left := due.Sub(p.clock.Now())
		if left <= 0 {
			return
		}
		timer := p.clock.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			return
		case <-p.kicks:
			timer.Stop()
			sooner(FastPeriod)
		case <-p.creates:
			timer.Stop()
			sooner(buildPeriod)
		}
	}
}

// OwnedPeriod is the time between two lists of ports and floating IPs, which are for the collector.
const OwnedPeriod = 15 * time.Minute

// poll makes one round of lists, and returns the time until the next.
func (p *Project) poll(ctx context.Context) time.Duration {
	p.mu.Lock()
	s, stamp := p.session, p.stamp
	started := p.clock.Now()
	full := stamp.IsZero() || isFullDue(started, p.lastFull, len(p.attempts) > 0)
	first := p.listedOwned.IsZero()
	ownedDue := first || started.Sub(p.listedOwned) >= OwnedPeriod
	suspects, lookDue := p.suspects(started)
	p.mu.Unlock()

	var err error
	if ownedDue {
		if err = p.listOwned(ctx, s, started); err != nil && !first {
			log.FromContext(ctx).Info("ports and floating IPs cannot be listed; what is known stays", "error", err.Error())
			err = nil
		}
	}
	l := listed{full: full, started: started}
	looked := err == nil && lookDue && p.lookAtPorts(ctx, s, suspects)
	var date time.Time
	if err == nil {
		l.rows, date, err = listServers(ctx, s, stamp, full)
	}
	if err != nil {
		if other := p.other(p, s); other != nil && fault.Is(err, fault.Auth) {
			p.Use(other)
		}
		return p.failed(ctx, err)
	}
	raised := p.lookAtQuotas(ctx, s)
	next, news := p.takeIn(ctx, l, date, looked)
	began := p.firstLook(ctx, s)
	lifted := p.liftLosses(ctx)
	news.Servers = append(news.Servers, p.storeHolds(ctx)...)
	news.All = news.All || raised || lifted || began
	p.changed(ctx, p, news)
	p.tagServers(ctx, s)
	p.lookAtUnjoined(ctx, s)
	p.removeDuplicates(ctx, s)
	p.releaseRetained(ctx, s)
	return next
}

// takeIn applies a list to what is known. It returns the time until the next list and what is new. looked: it is the second look at
// ports without a server.
func (p *Project) takeIn(ctx context.Context, l listed, date time.Time, looked bool) (time.Duration, Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, failure, held := p.synced(), p.failure, p.guard.reason() != ""
	p.failures, p.failure, p.lastList = 0, nil, l.started
	if !date.IsZero() {
		p.stamp = date
	}
	l.now = p.clock.Now()
	ids := p.servers.apply(l)
	if l.full {
		p.lastFull = l.started
		p.fulls++
	}
	if !before {
		p.suspectAttempts()
	}
	p.settleServers()
	p.faultyQuotas(ids)
	p.watchLosses(l.now)
	news := p.servers.affected(ids)
	if looked {
		news.Machines = append(news.Machines, p.clearSuspects()...)
	}
	news.Full = l.full
	news.All = !before || failure != nil || held != (p.guard.reason() != "")
	if !before || failure != nil {
		log.FromContext(ctx).Info("following the servers of a project", "servers", len(l.rows))
	}
	next := p.servers.period(l.now, len(p.attempts) > 0, p.isOurs)
	return p.untilSuspects(l.now, p.nextQuotaLook(l.now, next)), news
}

// isOurs reports whether a server is one of this cluster: it has the cluster's ID, or belongs to a Machine that we know
// (machine-controller's servers have no cluster ID), or such a Machine expects it.
func (p *Project) isOurs(k *knownServer) bool {
	uid := k.machine()
	return uid != "" && (k.tags().cluster == p.owners.cluster || k.expected != "" || p.knows(uid))
}

// knows reports whether a Machine with that UID asked for its cloud side.
func (p *Project) knows(uid types.UID) bool {
	_, ok := p.machines.Get(uid)
	return ok
}

// failed notes that lists failed, and returns the time until the next try, which grows. What is known stays.
func (p *Project) failed(ctx context.Context, err error) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures == 0 {
		log.FromContext(ctx).Info("the servers of a project cannot be listed; what is known stays", "error", err.Error())
	}
	p.failures++
	p.failure = err
	wait := FastPeriod
	for range min(p.failures, 6) - 1 {
		wait *= 2
	}
	return max(min(wait, RestPeriod), fault.Of(err).RetryAfter)
}

// Change is what is new in a project.
type Change struct {
	// All: every Machine of the project is affected. Full: it comes from a complete list.
	All, Full bool
	// Machines are the UIDs of the Machines whose server changed. Servers are the IDs of the servers that changed: a Machine may
	// name one of them.
	Machines []types.UID
	Servers  []string
}
