package inventory

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// Options configure a Project. Clock, Session, Machines, Changed and Other are required.
type Options struct {
	// Clock is the clock by which lists are timed.
	Clock clock.Clock
	// Session is the session with which the project lists resources, until Use or Replace sets another session.
	Session *client.Session
	// Endpoint is the URL of the project's Keystone. Site is the project and the region.
	Endpoint string
	Site     state.Site
	// Cluster is the cluster's ID in the owner tag of every resource.
	Cluster state.Cluster
	// Machines has the Machines for which Cloud.Instance was called.
	Machines state.Machines
	// Reader lists all Machines. nil means that only the Machines in the field Machines are known.
	Reader ctrlclient.Reader
	// Changed is called after each round of lists, with what has changed.
	Changed func(ctx context.Context, p *Project, c state.Change)
	// Other returns a session with other credentials for the same project; nil when there is none.
	Other func(p *Project, than *client.Session) *client.Session
}

// Project follows the servers, ports, floating IPs and quotas of one project in one region, for all its Machines, whatever
// credentials they use.
type Project struct {
	o     Options
	kicks chan struct{}
	// creates receives a value after a server was created, so that the next list is made earlier.
	creates chan struct{}
	session atomic.Pointer[client.Session]

	// mu guards known. It is not held during a call.
	mu    sync.Mutex
	known *state.Project
}

// New returns a Project that knows no resources before Run is called.
func New(o Options) *Project {
	p := &Project{
		o: o, kicks: make(chan struct{}, 1), creates: make(chan struct{}, 1),
		known: state.New(o.Cluster, o.Site, o.Machines, o.Clock.Now(), o.Session.NoteFault),
	}
	p.session.Store(o.Session)
	p.o.Session = nil // only the session in use stays in memory
	return p
}

// Endpoint returns the URL of the project's Keystone.
func (p *Project) Endpoint() string { return p.o.Endpoint }

// Site returns the project and the region.
func (p *Project) Site() state.Site { return p.o.Site }

// With calls f with what is known of the project, while it holds the lock: f makes no call to a cloud, and does not use p.
func (p *Project) With(f func(s *state.Project)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.known)
}

// ResourcesOf returns what is known of a Machine's resources besides its servers.
func (p *Project) ResourcesOf(machine types.UID) (r state.Resources) {
	p.With(func(s *state.Project) { r = s.ResourcesOf(machine) })
	return r
}

// Use switches to the newest credentials, which are likely to stay valid longest.
func (p *Project) Use(s *client.Session) { p.session.Store(s) }

// Replace switches from the session old to the session by, because the credentials of old are not used any more. It changes
// nothing when old is not the current session.
func (p *Project) Replace(old, by *client.Session) { p.session.CompareAndSwap(old, by) }

// Kick makes Run list the servers again after state.FastPeriod, unless a list is due earlier.
func (p *Project) Kick() { signal(p.kicks) }

// signal sends to a channel of capacity one, unless the channel is full.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
