package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// namedCloud is a cloud, and the value of cloudProvider by which provider specs select it.
type namedCloud struct {
	name string
	cloud.Cloud
}

// clouds is the registry of clouds. It implements [cloud.Cloud]: each call goes to the cloud that the Machine's provider ID
// names, or else to the cloud that its provider spec or its MachineClass names. The first cloud is the default. It also receives
// the calls for an unknown cloud, and returns an error that shows which document has the unknown name.
type clouds struct {
	list []namedCloud
	// reader reads MachineClasses.
	reader  client.Reader
	changes chan types.NamespacedName
}

var _ cloud.Cloud = (*clouds)(nil)

// newClouds returns the registry of the clouds in list. It adds the registry, and the clouds that run in the background, to the
// manager.
func newClouds(mgr manager.Manager, list []namedCloud) (*clouds, error) {
	c := &clouds{list: list, reader: mgr.GetClient(), changes: make(chan types.NamespacedName)}
	for _, n := range list {
		if r, ok := n.Cloud.(manager.Runnable); ok {
			if err := mgr.Add(r); err != nil {
				return nil, fmt.Errorf("adding cloud %s: %w", n.name, err)
			}
		}
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("adding the registry of clouds: %w", err)
	}
	return c, nil
}

// named returns the cloud with the name, or the default cloud when there is none.
func (c *clouds) named(name string) cloud.Cloud {
	for _, n := range c.list {
		if n.name == name {
			return n.Cloud
		}
	}
	return c.list[0].Cloud
}

// owning returns the cloud of the server that a provider ID names; nil when the ID belongs to no known cloud.
func (c *clouds) owning(providerID string) cloud.Cloud {
	for _, n := range c.list {
		if n.ServerID(providerID) != "" {
			return n.Cloud
		}
	}
	return nil
}

// shown returns the cloud of a Machine, for methods that return no error. When the Machine's class cannot be read, it returns the
// default cloud. It reads classes from the informer cache, so it makes no request.
func (c *clouds) shown(m *v1alpha1.Machine) cloud.Cloud {
	if its, err := c.of(context.Background(), m); err == nil {
		return its
	}
	return c.list[0].Cloud
}

// of returns the cloud of a Machine. Errors: Transient when the Machine's class cannot be read.
func (c *clouds) of(ctx context.Context, m *v1alpha1.Machine) (cloud.Cloud, error) {
	if owner := c.owning(ptr.Deref(m.Spec.ProviderID, "")); owner != nil {
		return owner, nil
	}
	return c.ofSpec(ctx, m.Namespace, &m.Spec)
}

// ofSpec returns the cloud that a spec or its MachineClass names. For a class that does not exist it returns the default cloud,
// which reports the missing class.
//
// Errors: Transient when the class cannot be read.
func (c *clouds) ofSpec(ctx context.Context, namespace string, spec *v1alpha1.MachineSpec) (cloud.Cloud, error) {
	source, err := spec.Provider()
	if err != nil {
		return c.list[0].Cloud, nil
	}
	if name := nameIn(source.Value); name != "" {
		return c.named(name), nil
	}
	if source.ValueFrom == nil || source.ValueFrom.MachineClass == nil {
		return c.list[0].Cloud, nil
	}
	key := types.NamespacedName{Namespace: source.ValueFrom.MachineClass.Namespace, Name: source.ValueFrom.MachineClass.Name}
	if key.Namespace == "" {
		key.Namespace = namespace
	}
	var class v1alpha1.MachineClass
	switch err := c.reader.Get(ctx, key, &class); {
	case apierrors.IsNotFound(err):
		return c.list[0].Cloud, nil
	case err != nil:
		return nil, fault.New(fault.Transient, fault.CodeUnknown, "reading MachineClass %s, which names the cloud: %v", key, err)
	}
	if class.Provider != "" {
		return c.named(class.Provider), nil
	}
	return c.named(nameIn(class.ProviderSpec)), nil
}

// nameIn returns the cloudProvider in a provider spec; empty when the spec has none.
func nameIn(document *runtime.RawExtension) string {
	var fields struct {
		CloudProvider any `json:"cloudProvider"`
	}
	if document == nil || json.Unmarshal(document.Raw, &fields) != nil {
		return ""
	}
	name, _ := fields.CloudProvider.(string)
	return name
}

// ServerID returns the ID of the server that a provider ID of any known cloud names.
func (c *clouds) ServerID(providerID string) cloud.ServerID {
	if owner := c.owning(providerID); owner != nil {
		return owner.ServerID(providerID)
	}
	return ""
}

// IDPrefix returns the part of a provider ID before the server's own ID, for any known cloud.
func (c *clouds) IDPrefix(providerID string) string {
	if owner := c.owning(providerID); owner != nil {
		return owner.IDPrefix(providerID)
	}
	return ""
}

// KubeletIDPrefix calls the method of the same name of the cloud that the provider config names.
func (c *clouds) KubeletIDPrefix(config *v1alpha1.ProviderConfig, existing map[string]int) string {
	return c.named(config.CloudProvider).KubeletIDPrefix(config, existing)
}

// Placement calls the method of the same name of the cloud that the spec itself names.
func (c *clouds) Placement(spec *v1alpha1.MachineSpec) (cloud.Placement, bool) {
	return c.named(nameIn(spec.ProviderSpec.Value)).Placement(spec)
}

// Remembered calls the method of the same name of the Machine's cloud.
func (c *clouds) Remembered(m *v1alpha1.Machine) cloud.Remembered { return c.shown(m).Remembered(m) }

// MayBeLeft calls the method of the same name of the Machine's cloud.
func (c *clouds) MayBeLeft(m *v1alpha1.Machine) string { return c.shown(m).MayBeLeft(m) }

// Instance calls the method of the same name of the Machine's cloud.
func (c *clouds) Instance(ctx context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	its, err := c.of(ctx, m)
	if err != nil {
		return nil, err
	}
	return its.Instance(ctx, m)
}

// ServerOf calls the method of the same name of the Machine's cloud.
func (c *clouds) ServerOf(ctx context.Context, m *v1alpha1.Machine) (*cloud.Server, error) {
	its, err := c.of(ctx, m)
	if err != nil {
		return nil, err
	}
	return its.ServerOf(ctx, m)
}

// Shape calls the method of the same name of the cloud that the template names.
func (c *clouds) Shape(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) (cloud.Shape, error) {
	its, err := c.ofSpec(ctx, namespace, &t.Spec)
	if err != nil {
		return cloud.Shape{}, err
	}
	return its.Shape(ctx, namespace, t)
}

// PlaceRecord calls the method of the same name of the cloud that the template names. While the template's class cannot be read,
// it returns no record; the Machine controller writes the record later.
func (c *clouds) PlaceRecord(ctx context.Context, namespace string, t *v1alpha1.MachineTemplateSpec) *runtime.RawExtension {
	its, err := c.ofSpec(ctx, namespace, &t.Spec)
	if err != nil {
		return nil
	}
	return its.PlaceRecord(ctx, namespace, t)
}

// Tagged returns the resources of this cluster in all clouds, by project.
func (c *clouds) Tagged(ctx context.Context) []cloud.Project {
	var all []cloud.Project
	for _, n := range c.list {
		for _, p := range n.Tagged(ctx) {
			p.Cloud = n.name
			for i := range p.Resources {
				p.Resources[i].Cloud = n.name
			}
			all = append(all, p)
		}
	}
	return all
}

// Collect calls the method of the same name of the resource's cloud.
func (c *clouds) Collect(ctx context.Context, r cloud.Resource) error {
	return c.named(r.Cloud).Collect(ctx, r)
}

// IsServerGone calls the method of the same name of the cloud to which the provider ID belongs. It returns an error when the ID
// belongs to no known cloud.
func (c *clouds) IsServerGone(ctx context.Context, providerID, place string) (bool, error) {
	owner := c.owning(providerID)
	if owner == nil {
		return false, fault.New(fault.Invalid, fault.CodeInvalidSpec, "%.64q is the provider ID of no known cloud", providerID)
	}
	return owner.IsServerGone(ctx, providerID, place)
}

// Changes returns a channel that receives the changes of all clouds.
func (c *clouds) Changes() <-chan types.NamespacedName { return c.changes }

// NeedLeaderElection returns true, because only the leader consumes the changes of the clouds.
func (c *clouds) NeedLeaderElection() bool { return true }

// Start forwards the changes of all clouds until ctx ends.
func (c *clouds) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, n := range c.list {
		wg.Go(func() { forward(ctx, n.Changes(), c.changes) })
	}
	wg.Wait()
	return nil
}

func forward(ctx context.Context, from <-chan types.NamespacedName, to chan<- types.NamespacedName) {
	for {
		select {
		case <-ctx.Done():
			return
		case key := <-from:
			select {
			case to <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}
