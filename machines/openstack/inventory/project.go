package inventory

import (
	"context"
	"sync"

	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/known"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
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
	Machines owner.Machines
	// Reader lists all Machines. nil: only those in Machines are known.
	Reader ctrlclient.Reader
	// Holds keeps across restarts what the mass-deletion guard holds. nil: it ends with the process.
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
	cluster  owner.Cluster
	machines owner.Machines
	changed  func(ctx context.Context, p *Project, c Change)
	other    func(p *Project, than *client.Session) *client.Session
	reader   ctrlclient.Reader
	holds    Holds
	collect  func(ctx context.Context) (bool, error)
	kicks    chan struct{}
	// creates receives a value when a server was ordered.
	creates chan struct{}
	// site is the project and the region.
	site     Site
	endpoint string

	// mu guards what follows. It is not held during a call.
	mu      sync.Mutex
	session *client.Session
	known   *known.Project
}

// New returns a project of which nothing is known before Run.
func New(o Options) *Project {
	cluster := owner.Cluster(o.ClusterID)
	return &Project{
		clock: o.Clock, cluster: cluster, machines: o.Machines, changed: o.Changed, other: o.Other, reader: o.Reader,
		holds: o.Holds, collect: o.Collect, kicks: make(chan struct{}, 1), creates: make(chan struct{}, 1), endpoint: o.Endpoint, site: o.Site,
		session: o.Session,
		known: known.New(known.Options{
			Cluster: cluster, Site: o.Site, Machines: o.Machines, Began: o.Clock.Now(), Stores: o.Holds != nil,
		}),
	}
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
	return p.known.IsSynced(), p.known.Failure()
}

// Use has lists asked for with these credentials from now on: the newest ones are likely to stay valid longest.
func (p *Project) Use(s *client.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
}

// Replace has lists asked for with other credentials than those given, which are not used any more.
func (p *Project) Replace(old, by *client.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == old {
		p.session = by
	}
}

// Kick asks for a list soon.
func (p *Project) Kick() { signal(p.kicks) }

// signal sends to a channel that holds one value, unless it holds one already.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
