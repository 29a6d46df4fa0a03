package spec

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
)

// Options configure a Reader.
type Options struct {
	// Objects reads Clusters, MachineClasses, Secrets and ConfigMaps. nil means that provider specs cannot refer to such objects.
	Objects ctrlclient.Reader
	// Configured holds the credentials of the configured cloud, which every other source overrides. It may be empty, and is used
	// until Configure is called.
	Configured client.Credentials
	// IdentityOverride allows a provider spec to replace user, domain and project of Configured.
	IdentityOverride bool
	// AllowedNamespaces are the namespaces besides the Machine's own that references may point into.
	AllowedNamespaces []string
	// OwnNamespace is the namespace in which drover runs, whose Secrets may name an endpoint; may be empty.
	OwnNamespace string
	// ServiceAccount is drover's service account, as namespace:name, for errors about a forbidden Secret.
	ServiceAccount string
	// SharedServerGroup puts servers whose spec names no server group into the server group of the cluster.
	SharedServerGroup bool
	// CloudProviders are the names of all clouds that a provider spec may name. The error about any other name lists them.
	// Default: Name.
	CloudProviders []string
	// ReservedTags are the keys of server metadata that a spec may not set.
	ReservedTags []string
}

// Reader reads provider specs.
type Reader struct {
	options Options
	// trusted are the namespaces whose Secrets may name an endpoint: drover's own, and the allowed ones.
	trusted    []string
	configured atomic.Pointer[configured]
}

// configured holds the credentials of the configured cloud, and the lowest layer that is made of them.
type configured struct {
	credentials client.Credentials
	layer       layer
}

// NewReader returns a Reader. It reads nothing yet.
func NewReader(o Options) *Reader {
	trusted := slices.Clone(o.AllowedNamespaces)
	if o.OwnNamespace != "" {
		trusted = append(trusted, o.OwnNamespace)
	}
	if len(o.CloudProviders) == 0 {
		o.CloudProviders = []string{Name}
	}
	r := &Reader{options: o, trusted: trusted}
	r.Configure(o.Configured)
	return r
}

// Configure replaces the credentials of the configured cloud for all later calls of Read.
func (r *Reader) Configure(c client.Credentials) {
	r.configured.Store(&configured{credentials: c, layer: configuredLayer(&c)})
}

// Configured returns the credentials of the configured cloud.
func (r *Reader) Configured() client.Credentials { return r.configured.Load().credentials }

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

// Read returns the sources of an object's provider spec. It reads the objects that the spec refers to, but follows no reference to
// a single value.
func (r *Reader) Read(ctx context.Context, o Object) (*Sources, error) {
	s := &Sources{
		Config: &v1alpha1.ProviderConfig{}, reader: r, configured: r.configured.Load(), name: o.Name, lenient: o.Lenient, hasServer: o.HasServer,
		objects: objects{reader: r.options.Objects, namespace: o.Namespace, allowed: r.options.AllowedNamespaces, account: r.options.ServiceAccount},
	}
	if err := s.read(ctx, o); err != nil {
		return nil, err
	}
	return s, nil
}

// Spec reads the fields other than credentials.
func (s *Sources) Spec(ctx context.Context) (*Spec, error) {
	got, err := readSpec(ctx, s.stack(), s.reader.options.ReservedTags)
	if err == nil && got.ServerGroup == "" && s.reader.options.SharedServerGroup {
		got.ServerGroup = SharedServerGroup
	}
	return got, err
}

// Access reads the credentials. It returns an error of class Auth when they are missing or must not be sent to the endpoint.
func (s *Sources) Access(ctx context.Context) (*Access, error) {
	rules := credentialRules{configured: &s.configured.credentials, trusted: s.reader.trusted, override: s.reader.options.IdentityOverride}
	a, err := readCredentials(ctx, s.stack(), rules)
	if err == nil {
		a.Origin = under(s.name, a.Origin)
	}
	return a, err
}

// stack returns the layers, highest first.
func (s *Sources) stack() layers {
	return layers{list: s.layers, get: s.objects.dereference, lenient: s.lenient, note: s.note}
}

// under puts the object's name before a text that does not begin with that name.
func under(name, text string) string {
	if strings.HasPrefix(text, name) {
		return text
	}
	return name + ": " + text
}
