package machine_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/test/kubelet"
)

// fakeCloud is a cloud in memory. A server is Building until the test changes its state.
type fakeCloud struct {
	provider.Provider
	// Inventory is nil, because no test of this package uses it.
	cloud.Inventory
	mu      sync.Mutex
	changes chan types.NamespacedName
	servers map[types.UID]*fakeServer
	made    int
	calls   map[string]int

	// duplicates holds further servers that have the same Machine's owner tag.
	duplicates map[types.UID][]*cloud.Server
	// unsynced is true while no list of servers has been read.
	unsynced bool
	// failing returns the error of a call; a nil failing means that no call fails. A call is the name of a method.
	failing func(call string) error
	// starting returns the error of StartServer and may change the server. Without this function, StartServer succeeds, and a server
	// that is shut down becomes ACTIVE.
	starting func(*fakeServer) error
	// refuse holds the errors of Instance, by the Machine's name.
	refuse map[string]*fault.Error
	// full is the error of EnsureServer, and queued that of Prepare; nil means that the call succeeds.
	full, queued *fault.Error
	// refusal is the error of DeleteServer; nil means that the call succeeds. held says that too many
	// servers are lost at once.
	refusal *fault.Error
	held    string
	// slow is true while deletions of servers do not finish.
	slow bool
	// unreleased is true while ports are still being deleted.
	unreleased bool
	// left lists resources that Release does not delete. unknown is why the states of the servers are not known.
	left    []string
	unknown string
	// outdated is why the lists of servers fail.
	outdated string
	// project is the project of the servers; empty means that the cloud has no projects.
	project string
	// console is the console output of every server.
	console string
	// system is the operating system of the servers.
	system string
	// created is the creation time of new servers.
	created func() time.Time
	// during is called with the name of each call that creates something, before the call takes effect.
	during func(call string)
	// onServer is called for each new server, with its user data.
	onServer func(id, name string, userData []byte)
	// onDelete is called before a server is deleted.
	onDelete func()
	// onGone is called with the ID of each server that is gone.
	onGone func(id string)
}

type fakeServer struct {
	cloud.Server
	// record is the provider's data about the server, without its ID and host.
	record    provider.Record
	key       types.NamespacedName
	exists    bool
	leftovers bool
	// slow is true while the deletion of this server does not finish.
	slow bool
}

func newFakeCloud() *fakeCloud {
	return &fakeCloud{
		changes: make(chan types.NamespacedName, 1000), servers: map[types.UID]*fakeServer{}, calls: map[string]int{},
		refuse: map[string]*fault.Error{}, created: time.Now, onServer: func(string, string, []byte) {}, onGone: func(string) {}, onDelete: func() {},
	}
}

func (c *fakeCloud) Instance(_ context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refuse[m.Name]; err != nil {
		return nil, err
	}
	i := &fakeInstance{cloud: c, machine: m}
	return i, i.fails("Instance")
}

func (c *fakeCloud) Shape(context.Context, string, *v1alpha1.MachineTemplateSpec) (cloud.Shape, error) {
	return cloud.Shape{}, fault.New(fault.Invalid, fault.CodeFlavorNotFound, "no flavors here")
}

// ServerOf returns the server that was created for the Machine.
func (c *fakeCloud) ServerOf(_ context.Context, m *v1alpha1.Machine) (*cloud.Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[m.UID]
	if s == nil || !s.exists || s.Owner != m.UID {
		return nil, nil
	}
	return c.seen(s), nil
}

func (c *fakeCloud) PlaceRecord(context.Context, string, *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
	return nil
}

func (c *fakeCloud) Changes() <-chan types.NamespacedName { return c.changes }

// change changes a Machine's server, and reports the change to the controller.
func (c *fakeCloud) change(uid types.UID, alter func(*fakeServer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[uid]
	alter(s)
	c.changes <- s.key
}

// nobodysServer is the ID of a server that belongs to no Machine.
const nobodysServer = "11111111-2222-3333-4444-555555555555"

// existing returns the servers that exist, for the simulated cloud-controller-manager.
func (c *fakeCloud) existing() []kubelet.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []kubelet.Server{{ID: nobodysServer, Name: "nobodys"}}
	for _, s := range c.servers {
		if s.exists {
			out = append(out, kubelet.Server{ID: s.ID, Name: s.Name, Zone: s.record.Zone, Addresses: s.Addresses})
		}
	}
	return out
}

// share makes the server of one Machine also the server of another Machine.
func (c *fakeCloud) share(with, of types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[with] = c.servers[of]
}

func (c *fakeCloud) active(s *fakeServer) {
	s.State, s.Status, s.record.Zone, s.HostID = cloud.ServerActive, "ACTIVE", "zone-a", "host-1"
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}, {Type: corev1.NodeHostName, Address: s.Name}}
}

// count returns how often a call was made. call is the name of the call. If a space and a Machine's name follow, only calls for that
// Machine count.
func (c *fakeCloud) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[call]
}

type fakeInstance struct {
	cloud   *fakeCloud
	machine *v1alpha1.Machine
}

// fails returns the error of a call; nil when the call succeeds. The caller must hold mu.
func (i *fakeInstance) fails(call string) error {
	if i.cloud.failing == nil {
		return nil
	}
	return i.cloud.failing(call)
}

func (i *fakeInstance) called(name string) {
	i.cloud.calls[name]++
	i.cloud.calls[name+" "+i.machine.Name]++
}

// makes runs the function during, unless it is nil, before the cloud call with the given name creates something.
func (i *fakeInstance) makes(name string) {
	if during := i.cloud.during; during != nil {
		during(name)
	}
}

func (i *fakeInstance) Config() *v1alpha1.ProviderConfig {
	return &v1alpha1.ProviderConfig{OperatingSystem: cmp.Or(i.cloud.system, "ubuntu")}
}

func (i *fakeInstance) Placement() cloud.Placement { return cloud.Placement{Flavor: "m1", Zone: "a"} }

func (i *fakeInstance) Warnings() []string { return nil }

func (i *fakeInstance) Observe(context.Context) (cloud.Facts, error) {
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	if err := i.fails("Observe"); err != nil {
		return cloud.Facts{}, err
	}
	if i.cloud.unsynced {
		return cloud.Facts{}, nil
	}
	f := cloud.Facts{Synced: true, Held: i.cloud.held, Outdated: i.cloud.outdated, Duplicates: i.cloud.duplicates[i.machine.UID]}
	if i.cloud.project != "" {
		f.Place = &provider.Record{ProjectID: i.cloud.project}
	}
	s := i.cloud.servers[i.machine.UID]
	switch {
	case s == nil:
	case s.Owner != i.machine.UID:
		f.Foreign = "server " + s.ID + " belongs to the Machine with UID " + string(s.Owner)
		return f, nil
	case s.exists:
		f.Server = i.cloud.seen(s)
	default:
		f.Had = i.cloud.ServerID(s.ID)
	}
	if f.Unknown = i.cloud.unknown; f.Unknown != "" {
		f.Server, f.Had = nil, ""
		return f, nil
	}
	named := i.machine.Spec.ProviderID
	f.Gone = f.Server == nil && named != nil && s != nil && s.ProviderID == *named
	f.Leftovers = s != nil && s.leftovers
	return f, nil
}

func (i *fakeInstance) ObserveNow(ctx context.Context) (cloud.Facts, error) {
	i.cloud.mu.Lock()
	i.called("ObserveNow")
	err := i.fails("ObserveNow")
	i.cloud.mu.Unlock()
	if err != nil {
		return cloud.Facts{}, err
	}
	return i.Observe(ctx)
}

func (i *fakeInstance) StartServer(context.Context) error {
	i.makes("StartServer")
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	i.called("StartServer")
	if err := i.fails("StartServer"); err != nil {
		return err
	}
	s := i.cloud.servers[i.machine.UID]
	if i.cloud.starting != nil {
		return i.cloud.starting(s)
	}
	i.cloud.active(s)
	i.cloud.changes <- s.key
	return nil
}

func (i *fakeInstance) Reserve(context.Context) error { return nil }

func (i *fakeInstance) Prepare(context.Context) error {
	i.makes("Prepare")
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	i.called("Prepare")
	if err := i.fails("Prepare"); err != nil {
		return err
	}
	if i.cloud.queued != nil {
		return i.cloud.queued
	}
	return nil
}

func (i *fakeInstance) EnsureServer(_ context.Context, userData []byte) (*cloud.Server, error) {
	i.makes("EnsureServer")
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	i.called("EnsureServer")
	if err := i.fails("EnsureServer"); err != nil {
		return nil, err
	}
	if i.cloud.full != nil {
		return nil, i.cloud.full
	}
	if s := i.cloud.servers[i.machine.UID]; s != nil && s.exists {
		return i.cloud.seen(s), nil
	}
	i.cloud.made++
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i.cloud.made)
	record := provider.Record{PortIDs: []string{"port-" + i.machine.Name}, FloatingIPID: "address-" + i.machine.Name}
	s := &fakeServer{exists: true, leftovers: true, record: record, key: types.NamespacedName{Namespace: i.machine.Namespace, Name: i.machine.Name}, Server: cloud.Server{
		ID: id, Name: i.machine.ServerName(), Owner: i.machine.UID, State: cloud.ServerBuilding, Status: "BUILD", ProviderID: "openstack:///" + id, Created: i.cloud.created(), Seen: i.cloud.created(),
	}}
	i.cloud.servers[i.machine.UID] = s
	i.cloud.onServer(id, s.Name, userData)
	return i.cloud.seen(s), nil
}

// seen returns a server as the cloud shows it. The caller must hold mu.
func (c *fakeCloud) seen(s *fakeServer) *cloud.Server {
	server, record := s.Server, s.record
	server.Key = c.ServerID(s.ID)
	record.ServerID, record.HostID = s.ID, s.HostID
	record.ProjectID = cmp.Or(record.ProjectID, c.project)
	server.Record = &record
	return &server
}

func (i *fakeInstance) DeleteServer(context.Context) error {
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	i.called("DeleteServer")
	i.cloud.onDelete()
	if err := i.fails("DeleteServer"); err != nil {
		return err
	}
	if i.cloud.refusal != nil {
		return i.cloud.refusal
	}
	if s := i.cloud.servers[i.machine.UID]; s != nil && s.exists && !i.cloud.slow && !s.slow {
		s.exists = false
		i.cloud.onGone(s.ID)
		i.cloud.changes <- s.key
	}
	return nil
}

func (i *fakeInstance) DeleteFailed(ctx context.Context) error { return i.DeleteServer(ctx) }

func (i *fakeInstance) Release(context.Context) (cloud.Released, error) {
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	i.called("Release")
	if err := i.fails("Release"); err != nil {
		return cloud.Released{}, err
	}
	if i.cloud.unreleased {
		return cloud.Released{Waiting: "ports are being deleted"}, nil
	}
	if s := i.cloud.servers[i.machine.UID]; s != nil {
		s.leftovers = false
	}
	return cloud.Released{Done: true, Left: i.cloud.left}, nil
}

func (i *fakeInstance) ConsoleOutput(context.Context, int) (string, error) {
	i.cloud.mu.Lock()
	defer i.cloud.mu.Unlock()
	i.called("ConsoleOutput")
	if err := i.fails("ConsoleOutput"); err != nil {
		return "", err
	}
	return i.cloud.console, nil
}
