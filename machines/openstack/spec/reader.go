package spec

import (
	"cmp"
	"context"
	"sync/atomic"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/settings"
)

// Options configure a Reader.
type Options struct {
	// Reader reads Clusters, MachineClasses, Secrets and ConfigMaps of the cluster that holds the Machines. nil means that provider
	// specs cannot refer to such objects.
	Reader ctrlclient.Reader
	// Configured holds the credentials of the configured cloud, which every other source overrides, and which are sent to their own
	// endpoint only. It may be empty, and is used until Configure is called.
	Configured client.Credentials
	// IdentityOverride allows a provider spec to replace user, domain and project of Configured.
	IdentityOverride bool
	// AllowedNamespaces are the namespaces besides the Machine's own that references may point into.
	AllowedNamespaces []string
	// OwnNamespace is the namespace in which drover runs, whose Secrets may name an endpoint; may be empty.
	OwnNamespace string
	// ServiceAccount is drover's service account, as namespace:name. An error about a Secret that drover is forbidden to read
	// contains a command with this name. Default: v1alpha1.DefaultServiceAccount.
	ServiceAccount string
	// SharedServerGroup puts servers whose spec names no server group into one server group of the cluster with soft-anti-affinity,
	// which drover creates when it is missing.
	SharedServerGroup bool
	// ReservedTags are the keys of server metadata that a spec may not set.
	ReservedTags []string
}

// Reader reads provider specs.
type Reader struct {
	options    Options
	configured atomic.Pointer[client.Credentials]
}

// NewReader returns a Reader. It reads nothing yet.
func NewReader(o Options) *Reader {
	r := &Reader{options: o}
	r.Configure(o.Configured)
	return r
}

// Configure replaces the credentials of the configured cloud for all later calls of Read.
func (r *Reader) Configure(c client.Credentials) {
	c.Source = cmp.Or(c.Source, "the configured cloud")
	r.configured.Store(&c)
}

// Configured returns the credentials of the configured cloud.
func (r *Reader) Configured() client.Credentials { return *r.configured.Load() }

// mergeConfigured adds the credentials of the configured cloud as the lowest layer of a provider spec. drover reads from it what
// neither the Machine nor its class nor its Cluster sets.
func (m *merged) mergeConfigured() {
	own, values := *m.configured, map[string]value{}
	own.Username, own.DomainName = cmp.Or(own.Username, own.UserID), cmp.Or(own.DomainName, own.UserDomainName)
	for field, plain := range settings.Texts(&own) {
		v := textValue(*plain, nil)
		v.at = m.atConfigured(field)
		values[field] = v
	}
	m.merge(m.configured.Source, "", values)
}

// atConfigured returns the name of a field of the configured cloud, for messages.
func (m *merged) atConfigured(field string) string {
	return m.configured.Source + ": " + cmp.Or(settings.NameOf(field), field)
}

// Object is a Machine or a template with a provider spec.
type Object struct {
	// Name is the name of the object in errors.
	Name, Namespace string
	Spec            *v1alpha1.MachineSpec
	Labels          map[string]string
	// Lenient is true for Machines that have, or had, a server: fields that cannot be read are then skipped instead of refused.
	Lenient bool
	// HasServer is true for a Machine with the ID of an OpenStack server. A cloudProvider other than OpenStack is then only noted,
	// instead of refused.
	HasServer bool
}

// Read returns the sources of an object's provider spec. It reads all objects that the spec refers to. It returns no error about a single
// field or its reference: [Sources.Spec] and [Sources.Access] return those of the fields that they use.
func (r *Reader) Read(ctx context.Context, o Object) (*Sources, error) {
	s := &Sources{
		Config: &v1alpha1.ProviderConfig{}, reader: r, known: map[reference]contents{},
		merged: merged{object: o, configured: r.configured.Load(), fields: map[string]value{}},
	}
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return s, nil
}
