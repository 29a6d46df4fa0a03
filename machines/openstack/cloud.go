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
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/catalog"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// Name is the cloudProvider of the provider specs that a Cloud reads.
const Name = spec.Name

// Options are what a Cloud works with.
type Options struct {
	// Clock; default: the real one.
	Clock clock.WithDelayedExecution
	// Reader reads Clusters, MachineClasses, Secrets and ConfigMaps of the cluster that holds the Machines. Without one
	// a provider spec must stand alone.
	Reader ctrlclient.Reader
	// ClusterID is written on everything that is made. Required; no white space.
	ClusterID string
	// Configured are the credentials of the configured cloud: they fill what a provider spec leaves out, and are sent to
	// their own endpoint only. May be empty.
	Configured client.Credentials
	// Reread returns Configured as it is by now. It is asked when the Cloud starts and then every 10 s, so that credentials can be
	// rotated without a restart; their endpoint must stay. nil: they never change.
	Reread func() (client.Credentials, error)
	// HTTP carries the requests. Default: one like http.DefaultTransport. It must be an *http.Transport when credentials bring a
	// CA bundle.
	HTTP http.RoundTripper
	// Registry takes the metrics; nil: they are not registered.
	Registry prometheus.Registerer
	// AllowedEndpoints are those of other Keystones than the configured cloud's that a provider spec may name, as
	// client.ParseEndpoints reads them. Nothing is sent to an endpoint that is neither allowed nor stands in a Secret of
	// OwnNamespace or of an allowed namespace.
	AllowedEndpoints []string
	// OwnNamespace is the namespace of drover itself; may be empty.
	OwnNamespace string
	// IdentityOverride lets a provider spec replace user, domain and project of the configured cloud's credentials.
	IdentityOverride bool
	// AllowedNamespaces are those that references of a provider spec may point into, beside the Machine's own.
	AllowedNamespaces []string
	// ServiceAccount is the one that drover runs under, as namespace:name, for the command that an error about a forbidden
	// Secret names. Default: v1alpha1.DefaultServiceAccount.
	ServiceAccount string
	// Guarded reports whether the admission policies are in force that keep everybody but drover and operators from writing
	// the status of a Machine and its guarded annotations. Only then those are believed: the annotation that allows the
	// adoption of a server, and a record of volumes and floating IPs that the cloud no longer shows on the server. Default:
	// they are never in force.
	Guarded func() bool
	// Holds keeps across restarts what the mass guard holds. Default: it ends with the process.
	Holds Holds
	// Collect reports whether an operator has confirmed the loss of many servers at once (annotation
	// drover-project.github.io/collect: "yes" on the ConfigMap of the cluster id). It is asked only while the mass guard
	// holds something. Default: it cannot be confirmed.
	Collect func(ctx context.Context) (bool, error)
	// SharedServerGroup: servers whose spec names no server group are put into one group of the cluster, with
	// soft-anti-affinity, that is made when it is not there.
	SharedServerGroup bool
	// ReadOnly: nothing is asked of the cloud but what it has, and tokens. Anything else is refused on the way out.
	ReadOnly bool
	// GPUTypes are the PCI aliases of flavors that are GPUs, beside those whose name says so.
	GPUTypes []string
	// CloudProviders are the names of all clouds that a provider spec may name, this one's among them. An error about any other
	// has them. Default: Name.
	CloudProviders []string
	// Lease is looked at when a request is sent that changes something. nil: it is always fresh.
	Lease cloud.Lease
	// ProviderIDRegion: nodes bear openstack://<region>/<id> instead of openstack:///<id>, as some releases of the
	// cloud-controller-manager write it.
	ProviderIDRegion bool
}

// Holds keeps across restarts what the mass guards of the projects hold.
type Holds = inventory.Holds

// Held is what the mass guard of one project holds.
type Held = inventory.Held

// HoldsKey identifies a project in a region.
type HoldsKey = inventory.HoldsKey

// Cloud implements [cloud.Cloud] for OpenStack. It is a Runnable: while it runs it follows the servers of each project
// that Machines have named, and nothing is known before.
type Cloud struct {
	provider.Provider
	options  Options
	client   *client.Client
	specs    *spec.Reader
	changes  chan types.NamespacedName
	machines *registry
	// affected are Machines to be sent to changes; joining are connections to be attached to their project.
	affected workqueue.TypedInterface[types.NamespacedName]
	joining  workqueue.TypedInterface[*connection]

	// refused are the endpoints that Machines with a server name and no operator has allowed.
	refused refusedEndpoints

	// began is when the process started.
	began time.Time

	connections *connections
}

// New makes a Cloud; it makes no call. The error names the option that is wrong.
func New(o Options) (*Cloud, error) {
	if err := CheckClusterID(o.ClusterID); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	allowed, err := client.ParseEndpoints(o.AllowedEndpoints)
	if err != nil {
		return nil, err
	}
	affected := workqueue.NewTyped[types.NamespacedName]()
	calls, err := client.New(client.Options{
		Clock: o.Clock, HTTP: o.HTTP, Registry: o.Registry, ReadOnly: o.ReadOnly, Lease: o.Lease,
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
		specs: spec.NewReader(spec.Options{
			Objects: o.Reader, Configured: o.Configured, IdentityOverride: o.IdentityOverride, AllowedNamespaces: o.AllowedNamespaces,
			OwnNamespace: o.OwnNamespace, ServiceAccount: o.ServiceAccount, SharedServerGroup: o.SharedServerGroup,
			CloudProviders: o.CloudProviders,
			ReservedTags:   []string{inventory.MetadataMachineUID, inventory.MetadataClusterID},
		}),
		connections: newConnections(o.Clock),
	}
	c.machines.dropped = calls.Forget
	if o.Registry != nil {
		if err := o.Registry.Register(state{c.connections.projects}); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return c, nil
}

// Changes returns a channel with the key of each Machine whose server changed or whose turn to make a call has come, and of
// every Machine of a project once its servers are known.
func (c *Cloud) Changes() <-chan types.NamespacedName { return c.changes }

// NeedLeaderElection is true: only the leader may ask the cloud.
func (c *Cloud) NeedLeaderElection() bool { return true }

// Start follows the projects until ctx ends, and returns when all is quiet.
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

// connect returns the one connection of these credentials. A Machine is given when it, and not a template, asks for it.
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

// register remembers the Machine that asked, so that changes find it, and has its connection attached.
func (c *Cloud) register(i *instance) {
	now := c.options.Clock.Now()
	c.machines.put(i.machine.UID, interest{key: i.key, group: i.group, connection: i.connection, machine: i.machine, asked: now})
	c.follow(i.connection, now)
}

// notify queues the Machines for which affected is true.
func (c *Cloud) notify(affected func(interest) bool) {
	c.machines.each(func(i interest) {
		if affected(i) {
			c.affected.Add(i.key)
		}
	})
}

// changed queues the Machines that a change in their project is about.
func (c *Cloud) changed(_ context.Context, p *inventory.Project, change inventory.Change) {
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
