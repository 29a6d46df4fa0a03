package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
)

// firstLook looks up, after a start, every server of this project that a Machine names and that is missing from the first
// complete list. The mass-deletion guard accepts no loss before that, so that it also counts the losses from before the restart.
// When too many servers are missing, the guard holds them all, and firstLook looks none of them up. firstLook first reads the
// state of the guard that the previous leader stored. It reports whether this call completed the look-ups.
func (p *Project) firstLook(ctx context.Context, s *client.Session) bool {
	p.mu.Lock()
	due := p.known.IsFirstLookDue()
	p.mu.Unlock()
	if !due {
		return false
	}
	err := p.loadHolds(ctx)
	var named map[string]types.UID
	if err == nil {
		named, err = p.namedServers(ctx)
	}
	if err != nil {
		log.FromContext(ctx).Info("Reading the mass-deletion guard or the Machines failed; no server counts as lost yet", "error", err.Error())
		p.Kick()
		return false
	}
	p.mu.Lock()
	unlisted := p.known.Unlisted(named, p.clock.Now())
	p.mu.Unlock()
	for _, id := range unlisted {
		found, err := calls.LookUpServer(ctx, id, s.Do)
		p.mu.Lock()
		p.known.FirstLooked(named[id], id, found, err, p.clock.Now())
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.CountLosses(p.clock.Now())
	p.known.Guard.MakeReady()
	return true
}

// namedServers returns the servers of this project that Machines name, each with its Machine.
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
