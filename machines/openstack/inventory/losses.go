package inventory

import (
	"context"
	"fmt"
	"iter"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/inventory/known"
)

// tooManyLost returns, for users, why a Machine whose server is lost is not replaced while its Node is Ready: too many Machines of the
// project have lost their servers at once, as when a cloud answers wrongly. It is empty while few have.
func (p *Project) tooManyLost() string {
	losses, err := p.losses()
	if err != nil {
		return err.Error()
	}
	return losses.String()
}

// losses counts the Machines of the project that have lost their servers. It must be called without mu held.
func (p *Project) losses() (known.Losses, error) {
	var all v1alpha1.MachineList
	if p.reader != nil {
		// The reader is the informer cache, which answers at once.
		if err := p.reader.List(context.Background(), &all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
			return known.Losses{}, fmt.Errorf("listing Machines: %w", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Losses(named(all.Items)), nil
}

// named returns those Machines that are not being deleted and that name a server.
func named(machines []v1alpha1.Machine) iter.Seq[known.Named] {
	return func(yield func(known.Named) bool) {
		for i := range machines {
			m := &machines[i]
			id := ServerIDOf(m)
			if id == "" || !m.DeletionTimestamp.IsZero() {
				continue
			}
			recorded := func() Site {
				record := RecordOf(m)
				return record.Site()
			}
			if !yield(known.Named{Machine: m.UID, ServerID: id, Recorded: recorded}) {
				return
			}
		}
	}
}
