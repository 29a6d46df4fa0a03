package memorycloud

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// instance implements [cloud.Instance]: it observes and changes the cloud resources of one Machine.
type instance struct {
	cloud   *Cloud
	machine *v1alpha1.Machine
	spec    spec
	config  *v1alpha1.ProviderConfig
}

// Config returns the Machine's own provider config.
func (i *instance) Config() *v1alpha1.ProviderConfig { return i.config }

// Placement returns the size as the flavor, and the room as the zone.
func (i *instance) Placement() cloud.Placement {
	return cloud.Placement{Flavor: i.spec.Size, Zone: i.spec.Room}
}

// Warnings is empty.
func (i *instance) Warnings() []string { return nil }

// Observe returns the Machine's server. It reports the server as gone when the server was deleted and the Machine's
// provider ID still names the server.
func (i *instance) Observe(context.Context) (cloud.Facts, error) {
	c := i.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	f := cloud.Facts{Synced: true, Place: record{Room: i.spec.Room}, Server: c.server(i.machine.UID), Leftovers: c.laid(i.machine.UID)}
	named := boxIn(ptr.Deref(i.machine.Spec.ProviderID, ""))
	if owner, scrapped := c.gone[named]; scrapped && owner == i.machine.UID && f.Server == nil {
		f.Gone, f.Had = true, keyOf(named)
	}
	return f, nil
}

// ObserveNow is the same as Observe, because nothing is cached.
func (i *instance) ObserveNow(ctx context.Context) (cloud.Facts, error) { return i.Observe(ctx) }

// StartServer does nothing, because no server of this cloud is ever shut down.
func (i *instance) StartServer(context.Context) error { return nil }

// Prepare creates the Machine's port (cable).
func (i *instance) Prepare(context.Context) error {
	c := i.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.laid(i.machine.UID) {
		c.calls["lay cable"]++
		c.cables[i.machine.UID] = time.Now()
	}
	return nil
}

// Reserve does nothing: there is no quota.
func (i *instance) Reserve(context.Context) error { return nil }

// EnsureServer creates the Machine's server (box) on its port (cable).
func (i *instance) EnsureServer(_ context.Context, userData []byte) (*cloud.Server, error) {
	c := i.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.server(i.machine.UID); s != nil {
		return s, nil
	}
	if !c.laid(i.machine.UID) || len(userData) == 0 {
		return nil, fault.New(fault.Conflict, fault.CodeConflict, "a box needs a cable and user data")
	}
	c.last++
	c.calls["build box"]++
	b := &Box{
		Number: c.last, Name: i.machine.ServerName(), Room: i.spec.Room, Size: i.spec.Size, Owner: i.machine.UID, Built: time.Now(),
		key: types.NamespacedName{Namespace: i.machine.Namespace, Name: i.machine.Name},
	}
	c.boxes[i.machine.UID] = b
	time.AfterFunc(c.boot, func() { c.booted(b) })
	return b.describe(), nil
}

// describe returns the server in the form of package machines/cloud.
func (b *Box) describe() *cloud.Server {
	s := &cloud.Server{
		ID: fmt.Sprintf("#%d", b.Number), Key: keyOf(b.Number), Name: b.Name, State: cloud.ServerBuilding, Status: "booting",
		ProviderID: b.ProviderID(), Owner: b.Owner, Configured: true, Created: b.Built,
		Record: record{Room: b.Room, Box: b.Number},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.9.%d.%d", b.Number/250, b.Number%250+1)},
			{Type: corev1.NodeHostName, Address: b.Name},
		},
	}
	if b.Running {
		s.State, s.Status = cloud.ServerActive, "running"
	}
	return s
}

// DeleteServer deletes the Machine's server.
func (i *instance) DeleteServer(context.Context) error {
	c := i.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.boxes[i.machine.UID]; b != nil {
		c.scrap(b)
	}
	return nil
}

// DeleteFailed does nothing, because no server of this cloud fails.
func (i *instance) DeleteFailed(context.Context) error { return nil }

// Release deletes the Machine's port (cable).
func (i *instance) Release(context.Context) (cloud.Released, error) {
	c := i.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.boxes[i.machine.UID] != nil {
		return cloud.Released{Waiting: "the cable is in use"}, nil
	}
	if c.laid(i.machine.UID) {
		c.takeOut(i.machine.UID)
	}
	return cloud.Released{Done: true}, nil
}

// ConsoleOutput is empty.
func (i *instance) ConsoleOutput(context.Context, int) (string, error) { return "", nil }
