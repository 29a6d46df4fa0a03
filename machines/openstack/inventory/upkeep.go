package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// releases is the maximum number of retained ports and floating IPs that are released between two lists.
const releases = 25

// lookAtQuotas makes one GET for each service whose quota is exhausted and whose limits must be read now. It reports whether
// there is free quota again.
func (p *Project) lookAtQuotas(ctx context.Context, s *client.Session) (raised bool) {
	var services []client.Service
	p.With(func(k *state.Project) { services = k.Quotas.Due(p.o.Clock.Now()) })
	for _, service := range services {
		free, err := readFree(ctx, s, service)
		p.With(func(k *state.Project) { raised = k.Quotas.Looked(service, free, err, p.o.Clock.Now()) || raised })
	}
	if raised {
		log.FromContext(ctx).Info("An exhausted quota has free capacity again")
	}
	return raised
}

// lookAtUnjoined looks up the ports of servers that should have become nodes by now. A server that has lost all ports of its
// Machine counts as failed.
func (p *Project) lookAtUnjoined(ctx context.Context, s *client.Session) {
	var due []state.Unjoined
	var ids []string
	p.With(func(k *state.Project) { due, ids = k.Unjoined(p.o.Clock.Now()) })
	if len(ids) == 0 {
		return
	}
	rows, err := listPorts(ctx, s, ids)
	if err != nil {
		log.FromContext(ctx).Info("Cannot look up the ports of servers that have not become nodes yet", "ports", len(ids), "error", err.Error())
		return
	}
	var machines []types.UID
	p.With(func(k *state.Project) { machines = k.Detach(due, rows, p.o.Clock.Now()) })
	if len(machines) > 0 {
		log.FromContext(ctx).Info("Replacing servers that are ACTIVE without their ports", "machineUIDs", machines)
		p.o.Changed(ctx, p, state.Change{Machines: machines})
	}
}

// removeDuplicates deletes servers that a create with an unknown outcome produced late, when their Machine has another server.
func (p *Project) removeDuplicates(ctx context.Context, s *client.Session) {
	var ids []string
	p.With(func(k *state.Project) { ids = k.Duplicates(p.o.Clock.Now()) })
	for _, id := range ids {
		log.FromContext(ctx).Info("Deleting a duplicate server of a Machine", "server", id)
		err := deleteResource(ctx, s, cloud.ResourceServer, id, "a duplicate")
		p.With(func(k *state.Project) { k.DeletionRequested(id, err, p.o.Clock.Now()) })
	}
}

// releaseRetained deletes retained ports and floating IPs of Machines whose servers cannot be created for lack of quota.
func (p *Project) releaseRetained(ctx context.Context, s *client.Session) {
	var due []state.Retained
	p.With(func(k *state.Project) { due = k.Retained(releases, p.o.Clock.Now()) })
	for _, r := range due {
		var begun bool
		p.With(func(k *state.Project) { begun = k.BeginRelease(r) })
		if !begun {
			continue
		}
		err := deleteResource(ctx, s, r.Tag.Kind, r.ID, "which was retained for a server that cannot be created")
		released := err == nil || fault.Is(err, fault.NotFound)
		p.With(func(k *state.Project) { k.EndRelease(r, released) })
		if !released {
			log.FromContext(ctx).Info("Cannot release a retained port or floating IP yet", "error", err.Error())
			return
		}
	}
}
