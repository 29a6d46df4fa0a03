package openstack

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// Name is the cloudProvider of the provider specs that a Cloud reads.
const Name = spec.Name

// Options configure a Cloud.
type Options struct {
	// Clock defaults to the real clock.
	Clock clock.WithDelayedExecution
	// Options say where provider specs are read and what they may name. New sets ReservedTags.
	spec.Options
	// ClusterID is the cluster's ID in the owner tag of every resource that drover creates. It is required and has no white space.
	ClusterID string
	// Reread returns the current value of Configured. It is called when the Cloud starts and then every 10 s, so that credentials
	// can be rotated without a restart; their endpoint must not change. nil means that the credentials never change.
	Reread func() (client.Credentials, error)
	// HTTP sends the requests. Default: see client.Options.HTTP. It must be an *http.Transport when credentials have a CA bundle.
	HTTP http.RoundTripper
	// Registry registers the metrics. nil means that they are not registered.
	Registry prometheus.Registerer
	// AllowedEndpoints are the Keystone endpoints besides the configured cloud's that a provider spec may name, in the format of
	// client.ParseEndpoints. drover sends nothing to any other endpoint, unless it is set in a Secret of OwnNamespace or of an
	// allowed namespace.
	AllowedEndpoints []string
	// Guarded reports whether the admission policies are in force. With them, only drover and operators can write the status of a
	// Machine and its guarded annotations. drover needs the policies to trust the annotation that allows the adoption of a server,
	// and the record of volumes and floating IPs that the cloud no longer shows on the server. Default: never in force.
	Guarded func() bool
	// Observe puts the cloud into observe mode, unless it is nil: only reads and sign-ins are sent. Any other request fails, and is passed
	// to Observe.
	Observe func(*http.Request)
	// Lease is checked before each request that changes a resource. nil means that the lease is always fresh.
	Lease cloud.Lease
	// ProviderIDRegion makes the provider ID of nodes openstack://<region>/<id> instead of openstack:///<id>, as some releases of the
	// cloud-controller-manager do.
	ProviderIDRegion bool
}

// Cloud implements [cloud.Cloud] for OpenStack. It is a Runnable: while it runs, it follows the servers of each project that
// Machines use. Before it runs, it knows no servers.
type Cloud struct {
	provider.Provider
	options  Options
	client   *client.Client
	specs    *spec.Reader
	changes  chan types.NamespacedName
	machines *registry
	// affected is the queue of the keys of Machines whose state in the cloud changed; sendAll sends them to the channel changes.
	// joining is the queue of connections that wait to be attached to their project.
	affected workqueue.TypedInterface[types.NamespacedName]
	joining  workqueue.TypedInterface[*connection]

	// refused collects the Keystone endpoints that Machines with a server use although the operator has not allowed them.
	refused refusedEndpoints

	// began is when the process started.
	began time.Time

	connections *connections
}

// New returns a Cloud and makes no call. The error names the option that is wrong.
func New(o Options) (*Cloud, error) {
	if err := CheckClusterID(o.ClusterID); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.ReservedTags = []string{state.MetadataMachineUID, state.MetadataClusterID}
	allowed, err := client.ParseEndpoints(o.AllowedEndpoints)
	if err != nil {
		return nil, err
	}
	affected := workqueue.NewTyped[types.NamespacedName]()
	calls, err := client.New(client.Options{
		Clock: o.Clock, HTTP: o.HTTP, Registry: o.Registry, Observe: o.Observe, Lease: o.Lease,
		Configured: o.Configured.IdentityEndpoint, Allowed: allowed, Wake: affected.Add,
	})
	if err != nil {
		return nil, err
	}
	c := &Cloud{
		Provider: provider.Provider{ClusterID: o.ClusterID, Region: o.ProviderIDRegion},
		options:  o, client: calls,
		changes: make(chan types.NamespacedName), machines: newRegistry(),
		affected: affected, joining: workqueue.NewTyped[*connection](), began: o.Clock.Now(),
		specs:       spec.NewReader(o.Options),
		connections: newConnections(o.Clock),
	}
	c.machines.dropped = calls.Forget
	if o.Registry != nil {
		if err := o.Registry.Register(projectCollector{c.connections.projects, o.Clock}); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return c, nil
}

// Changes returns a channel that receives the key of a Machine when its server changed, and when its turn to make a call has come. It
// also receives the keys of all Machines of a project once the project's servers are known.
func (c *Cloud) Changes() <-chan types.NamespacedName { return c.changes }

// NeedLeaderElection returns true: only the leader may call the cloud.
func (c *Cloud) NeedLeaderElection() bool { return true }

// Start keeps what is known of each project current until ctx ends. It returns when all its goroutines have ended.
func (c *Cloud) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { c.sendAll(ctx) })
	wg.Go(func() { c.followCredentials(ctx) })
	wg.Go(func() { c.sweepAll(ctx) })
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
	c.affected.ShutDown()
	wg.Wait()
	return nil
}

// sendAll sends the queued Machines to the consumer of Changes, which may be slow.
func (c *Cloud) sendAll(ctx context.Context) {
	for {
		key, down := c.affected.Get()
		if down {
			return
		}
		select {
		case c.changes <- key:
		case <-ctx.Done():
		}
		c.affected.Done(key)
	}
}

// connect returns the connection for these credentials, and creates it if there is none. m is nil for a template.
func (c *Cloud) connect(ctx context.Context, with *spec.Access, m *v1alpha1.Machine) (*connection, error) {
	creds := *with.Credentials
	if !creds.Vouched && !c.client.Permits(creds.IdentityEndpoint) {
		return nil, c.refused.refuse(ctx, with, m)
	}
	return c.connections.get(creds.Key(), func() (*connection, error) {
		s, err := c.client.Session(creds)
		if err != nil {
			return nil, err
		}
		return &connection{session: s, catalog: catalog.New(s, c.options.Clock, c.options.ClusterID)}, nil
	})
}

// register records the instance's Machine, so that changes of the Machine's server are reported on Changes. It also queues the
// Machine's connection for attach, unless the connection is attached.
func (c *Cloud) register(i *instance) {
	c.machines.put(i.machine.UID, interest{key: i.key, group: i.group, connection: i.connection, machine: i.machine, asked: c.options.Clock.Now()})
	c.follow(i.connection)
}

// notify queues every registered Machine for which affected returns true. sendAll then sends it to the channel changes.
func (c *Cloud) notify(affected func(interest) bool) {
	for i := range c.machines.interests {
		if affected(i) {
			c.affected.Add(i.key)
		}
	}
}

// changed queues the Machines that a change in their project concerns. sendAll then sends them to the channel changes.
func (c *Cloud) changed(_ context.Context, p *inventory.Project, change state.Change) {
	if change.All {
		c.notify(func(i interest) bool { return i.connection.attached() == p })
		return
	}
	for _, uid := range change.Machines {
		if i, ok := c.machines.get(uid); ok {
			c.affected.Add(i.key)
		}
	}
	for _, id := range change.Servers {
		if i, ok := c.machines.get(c.machines.Naming(id)); ok {
			c.affected.Add(i.key)
		}
	}
}

var _ cloud.Cloud = (*Cloud)(nil)
