package inventory

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// releases is the maximum number of retained ports and floating IPs that are released between two lists.
const releases = 25

// lookAtQuotas makes one GET for each service whose quota is exhausted and whose limits must be read now. It reports whether
// there is free quota again.
func (p *Project) lookAtQuotas(ctx context.Context, s *client.Session) (raised bool) {
	p.mu.Lock()
	services := p.known.Quotas.Due(p.clock.Now())
	p.mu.Unlock()
	for _, service := range services {
		free, err := readFree(ctx, s, service)
		p.mu.Lock()
		switch {
		case err == nil:
			raised = p.known.Quotas.Looked(service, free, p.clock.Now()) || raised
		case fault.Is(err, fault.RateLimited), fault.Is(err, fault.Transient):
			// The limits stay due, so the next round reads them again.
		default:
			raised = p.known.Quotas.Unreadable(service, p.clock.Now()) || raised
		}
		p.mu.Unlock()
	}
	if raised {
		log.FromContext(ctx).Info("An exhausted quota has free capacity again")
	}
	return raised
}

// lookAtUnjoined looks up the ports of servers that should have become nodes by now. A server that has lost all ports of its
// Machine counts as failed.
func (p *Project) lookAtUnjoined(ctx context.Context, s *client.Session) {
	p.mu.Lock()
	due, ids := p.known.Unjoined(p.clock.Now())
	p.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	rows, err := listPorts(ctx, s, ids)
	if err != nil {
		log.FromContext(ctx).Info("Cannot look up the ports of servers that have not become nodes yet", "ports", len(ids), "error", err.Error())
		return
	}
	p.mu.Lock()
	machines := p.known.Detach(due, rows, p.clock.Now())
	p.mu.Unlock()
	if len(machines) > 0 {
		log.FromContext(ctx).Info("Replacing servers that are ACTIVE without their ports", "machineUIDs", machines)
		p.changed(ctx, p, state.Change{Machines: machines})
	}
}

// removeDuplicates deletes servers that a create with an unknown outcome produced late, when their Machine has another server.
func (p *Project) removeDuplicates(ctx context.Context, s *client.Session) {
	p.mu.Lock()
	ids := p.known.Duplicates(p.clock.Now())
	p.mu.Unlock()
	for _, id := range ids {
		log.FromContext(ctx).Info("Deleting a duplicate server of a Machine", "server", id)
		p.DeletionRequested(id, deleteResource(ctx, s, state.ServerKind, id, "a duplicate"))
	}
}

// releaseRetained deletes retained ports and floating IPs of Machines whose servers cannot be created for lack of quota.
func (p *Project) releaseRetained(ctx context.Context, s *client.Session) {
	p.mu.Lock()
	due := p.known.Retained(releases, p.clock.Now())
	p.mu.Unlock()
	for _, r := range due {
		if !p.beginRelease(r) {
			continue
		}
		err := deleteResource(ctx, s, r.Tag.Kind, r.ID, "which was retained for a server that cannot be created")
		released := err == nil || fault.Is(err, fault.NotFound)
		p.endRelease(r, released)
		if !released {
			log.FromContext(ctx).Info("Cannot release a retained port or floating IP yet", "error", err.Error())
			return
		}
	}
}

func (p *Project) beginRelease(r state.Retained) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.BeginRelease(r)
}

func (p *Project) endRelease(r state.Retained, released bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.EndRelease(r, released)
}
