package openstack

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// Adopt makes the server that an operator lets the Machine take over the Machine's, when it may be; otherwise it sets m.Refusal.
// The server is marked with the next list. Transient while it is not known whether the server has another owner.
func (p *project) Adopt(ctx context.Context, m *Machine) error {
	of, present := p.adoptee(m)
	if !present {
		return nil
	}
	answer, reason := p.owners.server(m, of, p.existence(ctx, of.machine))
	m.Refusal = reason
	switch answer {
	case undecided:
		return fault.New(fault.Transient, fault.CodeUnsettled, "%s", reason)
	case adoptable:
		if p.claim(of, m.UID) {
			log.FromContext(ctx).Info("Adopting server by the operator's annotation", "server", of.id, "machineUID", m.UID, "formerMachineUID", of.machine)
			p.Kick()
		}
	}
	return nil
}

// adoptee returns the tags of the server that the Machine is to adopt, and reports whether there is one that exists and is not
// the Machine's yet.
func (p *project) adoptee(m *Machine) (tags, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.inventory.servers[m.Adopts]
	if k == nil || k.gone || k.missing || k.belongs(m.UID) {
		return tags{}, false
	}
	return k.tags(), true
}

// claim notes that a Machine adopts a server. It reports false when the server's tags have changed since they were read.
func (p *project) claim(of tags, by types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inventory.claim(of.id, of.machine, by)
}

// existence reports whether a Machine with that UID exists, in any namespace.
func (p *project) existence(ctx context.Context, uid types.UID) existence {
	if p.wanted(uid) {
		return exists
	}
	if p.reader == nil {
		return existenceUnknown
	}
	all := &v1alpha1.MachineList{}
	if err := p.reader.List(ctx, all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
		return existenceUnknown
	}
	for n := range all.Items {
		if all.Items[n].UID == uid {
			return exists
		}
	}
	return existsNot
}
