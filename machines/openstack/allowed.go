package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// site returns what the operator has said about credentials.
func (c *Cloud) site() site {
	trusted := slices.Clone(c.options.AllowedNamespaces)
	if c.options.OwnNamespace != "" {
		trusted = append(trusted, c.options.OwnNamespace)
	}
	return site{configured: &c.options.Configured, trusted: trusted, override: c.options.IdentityOverride}
}

// mostRefused bounds how many endpoints the log line about refused ones names.
const mostRefused = 20

// refusedEndpoints are the endpoints of Machines with a server that nobody has allowed. An operator who takes a cluster over reads
// them in the log, as the flag that allows them.
type refusedEndpoints struct {
	mu  sync.Mutex
	all []string
}

// add adds an endpoint. It returns all of them, and whether this one is new.
func (r *refusedEndpoints) add(endpoint string) (all []string, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if endpoint == "" || slices.Contains(r.all, endpoint) || len(r.all) >= mostRefused {
		return nil, false
	}
	r.all = append(r.all, endpoint)
	slices.Sort(r.all)
	return slices.Clone(r.all), true
}

// refuse returns the error about an endpoint that nobody has allowed. Nothing is sent to it. The endpoint of a Machine with a
// server is logged once, with the flag that allows it.
func (c *Cloud) refuse(ctx context.Context, with *access, m *v1alpha1.Machine) error {
	where := with.endpointField
	if with.endpoint.ref != nil {
		return fault.New(fault.Auth, fault.CodeEndpointNotAllowed,
			"%s: the endpoint in %s is not allowed, and nothing is sent to it; start drover with the endpoint in --allowed-endpoints, or move the Secret into a namespace of --secret-namespaces",
			where, with.endpoint.ref)
	}
	endpoint := client.Location(with.endpoint.text)
	if endpoint == "" {
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: the endpoint is not a URL of the form https://host:port/path", where)
	}
	if m != nil && serverIDOf(m) != "" {
		if all, isNew := c.refused.add(endpoint); isNew {
			log.FromContext(ctx).Info("Machines with servers name endpoints that are not allowed. drover sends nothing to them, and makes and deletes nothing there. Check them, and start drover with the flag",
				"endpoints", all, "machine", m.Namespace+"/"+m.Name, "flag", "--allowed-endpoints="+strings.Join(all, ","))
		}
	}
	return fault.New(fault.Auth, fault.CodeEndpointNotAllowed,
		"%s: endpoint %s is not allowed, and nothing is sent to it; if it is a cloud of yours, start drover with --allowed-endpoints=%s",
		where, endpoint, endpoint)
}
