package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// Options say what a Cloud works with.
type Options struct {
	// Clock; default: the real one.
	Clock clock.Clock
	// Reader reads Clusters, MachineClasses, Secrets and ConfigMaps of the cluster that holds the Machines. Without one
	// a provider spec must stand alone.
	Reader client.Reader
	// ClusterID is written on everything that is made. Required; no white space.
	ClusterID string
	// Configured are the credentials of the configured cloud: they fill what a provider spec leaves out, and are sent to
	// their own endpoint only. May be empty.
	Configured Credentials
	// HTTP carries the requests. Default: one like http.DefaultTransport. It must be an *http.Transport when credentials bring a
	// CA bundle.
	HTTP http.RoundTripper
	// Registry takes the metrics; nil: they are not registered.
	Registry prometheus.Registerer
	// AllowedNamespaces are those that references of a provider spec may point into, beside the Machine's own.
	AllowedNamespaces []string
	// ProviderIDRegion: nodes bear openstack://<region>/<id> instead of openstack:///<id>, as some releases of the
	// cloud-controller-manager write it.
	ProviderIDRegion bool
}

// Cloud implements [cloud.Cloud] for OpenStack. It is a Runnable: while it runs it follows the servers of each project
// that Machines have named, and nothing is known before.
type Cloud struct {
	options Options
	limiter *limiter
	metrics *metrics
	changes chan types.NamespacedName
	// told are Machines to be sent to changes; joining are connections to be attached to their project.
	told    workqueue.TypedInterface[types.NamespacedName]
	joining workqueue.TypedInterface[*connection]

	mu          sync.Mutex
	connections map[string]*connection
	projects    map[string]*project
	machines    map[types.UID]interest
}

// interest is a Machine that asked for its cloud side.
type interest struct {
	key        types.NamespacedName
	connection *connection
	serverID   string
}

// connection is a session with what hangs on it.
type connection struct {
	session *session
	catalog *catalog

	mu      sync.Mutex
	project *project
	// queued is true while somebody tries to attach it; used is when a Machine asked for it last.
	queued bool
	used   time.Time
}

func (c *connection) attached() *project {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.project
}

// New makes a Cloud; it makes no call. The error names the option that is wrong.
func New(o Options) (*Cloud, error) {
	if o.ClusterID == "" || strings.ContainsAny(o.ClusterID, " \t\n") {
		return nil, fmt.Errorf("cluster ID %q: give one without white space", o.ClusterID)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.HTTP == nil {
		o.HTTP = defaultTransport()
	}
	m, err := newMetrics(o.Registry)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return &Cloud{
		options: o, limiter: newLimiter(), metrics: m, changes: make(chan types.NamespacedName),
		told: workqueue.NewTyped[types.NamespacedName](), joining: workqueue.NewTyped[*connection](),
		connections: map[string]*connection{}, projects: map[string]*project{}, machines: map[types.UID]interest{},
	}, nil
}

// defaultTransport keeps as many connections open as are used at a time.
func defaultTransport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	own := base.Clone()
	own.MaxIdleConnsPerHost = concurrencyPerEndpoint
	return own
}

// Changes gives the key of each Machine whose server changed, and of every Machine of a project once its servers are
// known.
func (c *Cloud) Changes() <-chan types.NamespacedName { return c.changes }

// NeedLeaderElection is true: only the leader may ask the cloud.
func (c *Cloud) NeedLeaderElection() bool { return true }

// Start follows the projects until ctx ends, and returns when all is quiet.
func (c *Cloud) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.tellAll(ctx) })
	wg.Go(func() {
		for {
			conn, down := c.joining.Get()
			if down {
				return
			}
			wg.Go(func() { c.attach(ctx, conn, &wg) })
			c.joining.Done(conn)
		}
	})
	<-ctx.Done()
	c.joining.ShutDown()
	c.told.ShutDown()
	wg.Wait()
	return nil
}

// tellAll hands the queue to the consumer, who may be slow.
func (c *Cloud) tellAll(ctx context.Context) {
	for {
		key, down := c.told.Get()
		if down {
			return
		}
		select {
		case c.changes <- key:
		case <-ctx.Done():
		}
		c.told.Done(key)
	}
}

// connect gives the one connection of these credentials.
func (c *Cloud) connect(creds *Credentials) (*connection, error) {
	key := creds.key()
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, ok := c.connections[key]
	if !ok {
		client, err := c.httpClient(creds)
		if err != nil {
			return nil, err
		}
		s, err := newSession(*creds, client, c.options.Clock)
		if err != nil {
			return nil, err
		}
		conn = &connection{session: s, catalog: &catalog{session: s, cache: newCache(c.options.Clock)}}
		c.connections[key] = conn
	}
	return conn, nil
}

// httpClient trusts the credentials' CA bundle beside the system's.
func (c *Cloud) httpClient(creds *Credentials) (http.Client, error) {
	next := c.options.HTTP
	if len(creds.CACert) > 0 {
		base, ok := next.(*http.Transport)
		if !ok {
			return http.Client{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "a CA bundle needs a transport that can take it")
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(creds.CACert) {
			return http.Client{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "the CA bundle of %s holds no certificate", creds.IdentityEndpoint)
		}
		own := base.Clone()
		if own.TLSClientConfig == nil {
			own.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		own.TLSClientConfig.RootCAs = pool
		next = own
	}
	return http.Client{Transport: &transport{next: next, limiter: c.limiter, metrics: c.metrics, clock: c.options.Clock}}, nil
}

// register remembers who asked, so that changes find their Machine, and has the connection attached.
func (c *Cloud) register(m *v1alpha1.Machine, conn *connection) {
	c.mu.Lock()
	c.machines[m.UID] = interest{
		key: types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, connection: conn, serverID: serverIDOf(m),
	}
	c.mu.Unlock()
	conn.mu.Lock()
	conn.used = c.options.Clock.Now()
	queue := conn.project == nil && !conn.queued
	conn.queued = conn.queued || queue
	conn.mu.Unlock()
	if queue {
		c.joining.Add(conn)
	}
}

// forget drops a Machine whose resources are all released.
func (c *Cloud) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.machines, uid)
}

// idle is how long a connection that cannot sign in is tried without a Machine asking for it.
const idle = 15 * time.Minute

// attach signs in, again and again, and puts the connection on its project, which it starts to follow.
func (c *Cloud) attach(ctx context.Context, conn *connection, wg *sync.WaitGroup) {
	var told error
	for ctx.Err() == nil {
		id, err := conn.session.identity(ctx)
		if err == nil {
			c.join(ctx, conn, id, wg)
			return
		}
		if told == nil {
			c.tell(func(i interest) bool { return i.connection == conn })
		}
		told = err
		conn.mu.Lock()
		left := c.options.Clock.Since(conn.used) > idle
		conn.queued = !left
		conn.mu.Unlock()
		if left {
			return
		}
		timer := c.options.Clock.NewTimer(max(signInAgain, fault.Of(err).RetryAfter))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// join puts the connection on its project.
func (c *Cloud) join(ctx context.Context, conn *connection, id *identity, wg *sync.WaitGroup) {
	key := strings.Join([]string{normalEndpoint(conn.session.creds.IdentityEndpoint), id.region, id.projectID}, " ")
	c.mu.Lock()
	p, ok := c.projects[key]
	if !ok {
		p = newProject(conn.session, c.options.Clock, c.options.ClusterID)
		p.changed, p.wanted, p.other = c.changed, c.wanted, c.other
		c.projects[key] = p
	}
	c.mu.Unlock()
	p.use(conn.session)
	conn.mu.Lock()
	conn.project, conn.queued = p, false
	conn.mu.Unlock()
	if !ok {
		wg.Go(func() { p.run(ctx) })
		return
	}
	c.tell(func(i interest) bool { return i.connection == conn })
}

// other gives the session of the connection to the project that was used last, but for one whose credentials fail.
func (c *Cloud) other(p *project, than *session) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *session
	var latest time.Time
	for _, conn := range c.connections {
		conn.mu.Lock()
		if conn.project == p && conn.session != than && (best == nil || conn.used.After(latest)) {
			best, latest = conn.session, conn.used
		}
		conn.mu.Unlock()
	}
	return best
}

func (c *Cloud) wanted(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.machines[uid]
	return ok
}

// tell queues the Machines for which it is true.
func (c *Cloud) tell(concerned func(interest) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.machines {
		if concerned(i) {
			c.told.Add(i.key)
		}
	}
}

// changed tells the Machines of a change in their project: those concerned, or all of them.
func (c *Cloud) changed(p *project, change change) {
	if change.all {
		c.tell(func(i interest) bool { return i.connection.attached() == p })
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uid := range change.machines {
		if i, ok := c.machines[uid]; ok {
			c.told.Add(i.key)
		}
	}
	if len(change.servers) == 0 {
		return
	}
	for _, i := range c.machines {
		if change.servers[i.serverID] {
			c.told.Add(i.key)
		}
	}
}

// change is what is new in a project.
type change struct {
	// all: everybody is concerned.
	all      bool
	machines []types.UID
	// servers that bear no Machine's UID, by ID: a Machine may name them.
	servers map[string]bool
}

var _ cloud.Cloud = (*Cloud)(nil)
