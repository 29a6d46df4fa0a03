package memorycloud

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// sizes holds the number of CPUs and the GiB of memory of each server size.
var sizes = map[string]struct{ cpu, memory int64 }{"small": {2, 4}, "large": {4, 8}}

// Box is a server.
type Box struct {
	Number int
	Name   string
	Room   string
	Size   string
	// Owner is the UID of the Machine that the server was created for.
	Owner types.UID
	Built time.Time
	// Running reports whether the server has booted.
	Running bool

	key types.NamespacedName
}

// ProviderID returns the provider ID of the server's Node.
func (b *Box) ProviderID() string { return providerID(b.Room, b.Number) }

// Cloud implements [cloud.Cloud].
type Cloud struct {
	pure
	boot    time.Duration
	changes chan types.NamespacedName

	mu    sync.Mutex
	last  int
	boxes map[types.UID]*Box
	// gone holds the deleted servers by number, with the UID of the Machine that each was created for.
	gone map[int]types.UID
	// cables holds the time at which the port (cable) of each Machine was created, by UID of the Machine.
	cables map[types.UID]time.Time
	calls  map[string]int
}

var _ cloud.Cloud = (*Cloud)(nil)

// mostChanges is how many changes may be queued for the receiver of Changes.
const mostChanges = 10_000

// New returns a cloud whose servers (boxes) boot in the given time.
func New(boot time.Duration) *Cloud {
	return &Cloud{
		boot: boot, changes: make(chan types.NamespacedName, mostChanges),
		boxes: map[types.UID]*Box{}, gone: map[int]types.UID{}, cables: map[types.UID]time.Time{}, calls: map[string]int{},
	}
}

// Boxes returns a copy of all servers (boxes).
func (c *Cloud) Boxes() []Box {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Box
	for _, b := range c.boxes {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Box) int { return a.Number - b.Number })
	return out
}

// Calls returns how often each kind of change was made, such as "build box".
func (c *Cloud) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// Leftovers returns the numbers of servers (boxes) and ports (cables) that exist.
func (c *Cloud) Leftovers() (boxes, cables int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.boxes), len(c.cables)
}

// Instance returns the object through which drover observes and changes the cloud resources of a Machine. The Machine
// needs a valid provider spec, unless it is being deleted.
func (c *Cloud) Instance(_ context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	s, config, err := readSpec(&m.Spec)
	if err != nil && m.DeletionTimestamp.IsZero() {
		return nil, fault.New(fault.Invalid, fault.CodeInvalidSpec, "Machine %s/%s: %v", m.Namespace, m.Name, err)
	}
	if err != nil {
		s, config = spec{Room: recordOf(m.Status.ProviderStatus).Room}, &v1alpha1.ProviderConfig{}
	}
	return &instance{cloud: c, machine: m, spec: s, config: config}, nil
}

// ServerOf returns the Machine's server.
func (c *Cloud) ServerOf(_ context.Context, m *v1alpha1.Machine) (*cloud.Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server(m.UID), nil
}

// Shape returns the resources of a server of the template's size.
func (c *Cloud) Shape(_ context.Context, _ string, t *v1alpha1.MachineTemplateSpec) (cloud.Shape, error) {
	s, _, err := readSpec(&t.Spec)
	if err != nil {
		return cloud.Shape{}, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%v", err)
	}
	size := sizes[s.Size]
	return cloud.Shape{
		Flavor: s.Size, Zone: s.Room, Architecture: "amd64",
		CPU:    *resource.NewQuantity(size.cpu, resource.DecimalSI),
		Memory: *resource.NewQuantity(size.memory<<30, resource.BinarySI),
		Disk:   *resource.NewQuantity(50<<30, resource.BinarySI),
	}, nil
}

// PlaceRecord returns a providerStatus that contains only the template's zone (room).
func (c *Cloud) PlaceRecord(_ context.Context, _ string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
	s, _, err := readSpec(&t.Spec)
	if err != nil {
		return nil
	}
	return record{Room: s.Room}.MergeInto(nil)
}

// Changes returns a channel with the Machines whose servers have booted or were deleted.
func (c *Cloud) Changes() <-chan types.NamespacedName { return c.changes }

// server returns the server of the Machine with that UID, or nil when there is none. The caller holds the mutex.
func (c *Cloud) server(of types.UID) *cloud.Server {
	b := c.boxes[of]
	if b == nil {
		return nil
	}
	return b.describe()
}

// booted makes a server run, if it still exists.
func (c *Cloud) booted(b *Box) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.boxes[b.Owner] == b {
		b.Running = true
		c.changes <- b.key
	}
}

// laid reports whether a Machine has a port (cable). The caller holds the mutex.
func (c *Cloud) laid(of types.UID) bool {
	_, there := c.cables[of]
	return there
}
