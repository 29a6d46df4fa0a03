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
	"github.com/drover-project/drover/machines/openstack/inventory"
)

// credentialRules returns what the operator has said about credentials.
func (c *Cloud) credentialRules() credentialRules {
	trusted := slices.Clone(c.options.AllowedNamespaces)
	if c.options.OwnNamespace != "" {
		trusted = append(trusted, c.options.OwnNamespace)
	}
	return credentialRules{configured: &c.options.Configured, trusted: trusted, override: c.options.IdentityOverride}
}

// mostRefused bounds how many flags the log line about refused endpoints names.
const mostRefused = 20

// refusedEndpoints are the flags that would allow the endpoints of Machines with a server. An operator who takes a cluster over
// reads them in the log.
type refusedEndpoints struct {
	mu    sync.Mutex
	flags []string
}

// add adds a flag. It returns all of them, and whether this one is new.
func (r *refusedEndpoints) add(flag string) (all []string, isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.flags, flag) || len(r.flags) >= mostRefused {
		return nil, false
	}
	r.flags = append(r.flags, flag)
	slices.Sort(r.flags)
	return slices.Clone(r.flags), true
}

// refuse returns the error about an endpoint that nobody has allowed. Nothing is sent to it. When a Machine with a server names
// it, the flag that allows it is logged once.
func (c *Cloud) refuse(ctx context.Context, with *access, m *v1alpha1.Machine) error {
	location, ref := client.Location(with.endpoint.text), with.endpoint.ref
	name, flag, remedy := location, "--allowed-endpoints="+location, ""
	switch {
	case location == "":
		return fault.New(fault.Invalid, fault.CodeInvalidSpec, "%s: the endpoint is not a URL like https://host:port/path", with.endpointField)
	case ref != nil && ref.Kind == secretKind:
		name, flag = ref.value(), "--secret-namespaces="+ref.Namespace
		remedy = ", or with this URL in --allowed-endpoints"
	case ref != nil:
		name, flag = ref.value(), "--allowed-endpoints=URL"
	}
	if m != nil && inventory.ServerIDOf(m) != "" {
		if all, isNew := c.refused.add(flag); isNew {
			log.FromContext(ctx).Info("Machines with servers name endpoints that are not allowed: drover sends nothing there, and makes and deletes no server. Check the endpoints, and start drover with the flags",
				"flags", strings.Join(all, " "), "machine", m.Namespace+"/"+m.Name, "endpoint", name)
		}
	}
	return fault.New(fault.Auth, fault.CodeEndpointNotAllowed,
		"%s: %s is not allowed, and nothing is sent to it; if it is a cloud of yours, start drover with %s%s",
		with.endpointField, name, flag, remedy)
}
