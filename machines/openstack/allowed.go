package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory"
	"github.com/drover-project/drover/machines/openstack/spec"
)

// mostRefused bounds how many flags the log line about refused endpoints names.
const mostRefused = 20

// refusedEndpoints holds the flags that would allow the endpoints of Machines with a server. An operator who takes a cluster over
// reads them in the log.
type refusedEndpoints struct {
	mu    sync.Mutex
	flags []string
}

// add adds a flag. It returns all of them, and reports whether this one is new.
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

// refuse returns the error about an endpoint that no operator has allowed. Nothing is sent to it. When a Machine with a server names
// it, the flag that allows it is logged once. m is nil for a template.
func (r *refusedEndpoints) refuse(ctx context.Context, with *spec.Access, m *v1alpha1.Machine) error {
	refusal := with.Refuse()
	if refusal.Flag == "" || m == nil || inventory.ServerIDOf(m) == "" {
		return refusal.Err
	}
	if all, isNew := r.add(refusal.Flag); isNew {
		log.FromContext(ctx).Info("Machines with servers name endpoints that are not allowed: drover sends nothing there, and makes and deletes no server. Check the endpoints, and start drover with the flags",
			"flags", strings.Join(all, " "), "machine", m.Namespace+"/"+m.Name, "endpoint", refusal.Endpoint)
	}
	return refusal.Err
}
