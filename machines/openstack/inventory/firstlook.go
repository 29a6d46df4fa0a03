package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
)

// firstLook makes the losses countable after a start: every server of this project that a Machine names and that the first
// complete list lacks is asked for by its ID, before the first loss is believed. So a restart does not begin the count again.
// When there are too many, the mass guard holds them all and none is asked for. What a predecessor's guard held is read before.
// It reports whether the look was completed by this call.
func (p *Project) firstLook(ctx context.Context, s *client.Session) bool {
	p.mu.Lock()
	done := p.guard.ready || p.fulls == 0
	p.mu.Unlock()
	if done {
		return false
	}
	err := p.loadHolds(ctx)
	var named map[string]types.UID
	if err == nil {
		named, err = p.namedServers(ctx)
	}
	if err != nil {
		log.FromContext(ctx).Info("No loss of a server is believed yet", "error", err.Error())
		p.Kick()
		return false
	}
	for _, id := range p.unlisted(named) {
		p.lookFor(ctx, s, id, named[id])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchLosses(p.clock.Now())
	p.guard.ready = true
	return true
}

// namedServers returns the servers that Machines name and that were made in this project, each with its Machine.
func (p *Project) namedServers(ctx context.Context) (map[string]types.UID, error) {
	named := map[string]types.UID{}
	if p.reader == nil {
		return named, nil
	}
	all := &v1alpha1.MachineList{}
	if err := p.reader.List(ctx, all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	for n := range all.Items {
		m := &all.Items[n]
		record := RecordOf(m)
		if id := ServerIDOf(m); id != "" && p.site == record.Site() && m.DeletionTimestamp.IsZero() {
			named[id] = m.UID
		}
	}
	return named, nil
}

// unlisted returns those of the named servers that are not known or missing. When they are too many, the mass guard holds them
// and none is returned.
func (p *Project) unlisted(named map[string]types.UID) (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for id, machine := range named {
		p.servers.expect(id, machine, now)
		if p.servers.byID[id].missing {
			ids = append(ids, id)
		}
	}
	p.watchLosses(now)
	if len(p.guard.held) > 0 {
		return nil
	}
	return ids
}

// lookFor asks for a server that a Machine names. Only 404 is a loss; without an answer the server stays missing, which counts
// too.
func (p *Project) lookFor(ctx context.Context, s *client.Session, id string, machine types.UID) {
	found, err := lookUpServer(ctx, id, s.Do)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := p.clock.Now(); {
	case err == nil:
		p.servers.merge(*found, now)
	case fault.Is(err, fault.NotFound):
		p.servers.markGone(id, machine, now)
	}
}
