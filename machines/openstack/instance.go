package openstack

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// instance is one Machine's cloud side.
type instance struct {
	cloud      *Cloud
	connection *connection
	subject    subject
	// serverID is the server that the Machine names in spec.providerID; empty: none.
	serverID string
	config   *v1alpha1.ProviderConfig
	// spec is nil when invalid says what is wrong with it: then nothing can be made any more, but all can be deleted.
	spec    *Spec
	invalid error
}

// Instance reads the Machine's provider spec. A Machine that has a server, or is going, is read leniently: what is wrong
// with its spec must not stand in the way of its end.
func (c *Cloud) Instance(ctx context.Context, m *v1alpha1.Machine) (cloud.Instance, error) {
	name := fmt.Sprintf("Machine %s/%s", m.Namespace, m.Name)
	i := &instance{
		cloud: c, serverID: serverIDOf(m),
		subject: subject{cluster: c.options.ClusterID, uid: m.UID, server: m.ServerName()},
	}
	s := &sources{
		reader: c.options.Reader, namespace: m.Namespace, allowed: c.options.AllowedNamespaces,
		configured: &c.options.Configured, lenient: i.serverID != "" || !m.DeletionTimestamp.IsZero(),
	}
	if err := s.read(ctx, name, &m.Spec, m.Labels); err != nil {
		return nil, err
	}
	i.config = s.config
	ls := layers{list: s.layers, get: s.dereference}
	if i.spec, i.invalid = readSpec(ctx, ls); i.invalid != nil && !s.lenient {
		return nil, i.invalid
	}
	creds, err := readCredentials(ctx, ls, &c.options.Configured)
	if err != nil {
		return nil, err
	}
	if i.connection, err = c.connect(creds); err != nil {
		return nil, err
	}
	c.register(m, i.connection)
	return i, nil
}

// Config is the envelope after all layers.
func (i *instance) Config() *v1alpha1.ProviderConfig { return i.config }

// project gives the Machine's project once its lists have been seen. Before, it is nil; the error says why it will not
// come by itself.
func (i *instance) project() (*project, error) {
	p := i.connection.attached()
	if p == nil {
		_, refused := i.connection.session.known()
		return nil, refused
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.syncedLocked() {
		return p, nil
	}
	return nil, p.failure
}

// ready is project for those who must have it.
func (i *instance) ready() (*project, error) {
	p, err := i.project()
	if p == nil && err == nil {
		e := fault.New(fault.Transient, fault.CodeUnsettled, "the servers of the project have not been listed yet")
		e.RetryAfter = fastPeriod
		return nil, e
	}
	return p, err
}

// making gives the project and the resolved spec, for those who make something.
func (i *instance) making(ctx context.Context) (*project, *plan, error) {
	if i.invalid != nil {
		return nil, nil, i.invalid
	}
	p, err := i.ready()
	if err != nil {
		return nil, nil, err
	}
	plan, err := i.connection.catalog.resolve(ctx, i.spec)
	return p, plan, err
}

const providerIDScheme = "openstack://"

// serverIDOf takes the server's ID out of spec.providerID, in either form; empty when there is none.
func serverIDOf(m *v1alpha1.Machine) string {
	if m.Spec.ProviderID == nil {
		return ""
	}
	rest, ok := strings.CutPrefix(*m.Spec.ProviderID, providerIDScheme)
	if !ok {
		return ""
	}
	return rest[strings.LastIndex(rest, "/")+1:]
}

// providerID is the identity that the Node will bear.
func (i *instance) providerID(serverID string) string {
	region := ""
	if id, _ := i.connection.session.known(); id != nil && i.cloud.options.ProviderIDRegion {
		region = id.region
	}
	return providerIDScheme + region + "/" + serverID
}
