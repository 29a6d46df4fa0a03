package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/calls"
	"github.com/drover-project/drover/machines/openstack/inventory/known"
	"github.com/drover-project/drover/machines/openstack/inventory/owner"
	"github.com/drover-project/drover/machines/openstack/inventory/servers"
)

// adoptions is how many servers are tagged between two lists: a cluster that is taken over must not wait for them. When
// there are more, the next list comes soon.
const adoptions = 25

// Adopt makes the server that an operator lets the Machine take over the Machine's, when it may be; otherwise it sets m.Refusal.
// The server is tagged with the next list. Transient while it is not known whether the server has another owner.
func (p *Project) Adopt(ctx context.Context, m *Machine) error {
	p.mu.Lock()
	of, present := p.known.Adoptee(m)
	p.mu.Unlock()
	if !present {
		return nil
	}
	answer, reason := p.cluster.JudgeServer(m, of, p.existence(ctx, of.Machine))
	m.Refusal = reason
	switch answer {
	case owner.Undecided:
		return fault.New(fault.Transient, fault.CodeUnsettled, "%s", reason)
	case owner.Adoptable:
		if p.claim(of, m.UID) {
			log.FromContext(ctx).Info("Adopting server by the operator's annotation", "server", of.ID, "machineUID", m.UID, "formerMachineUID", of.Machine)
			p.Kick()
		}
	}
	return nil
}

// claim notes that a Machine adopts a server. It reports false when the server's tags have changed since they were read.
func (p *Project) claim(of owner.ServerTags, by types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Servers.Claim(of.ID, of.Machine, by)
}

// existence reports whether a Machine with that UID exists, in any namespace.
func (p *Project) existence(ctx context.Context, uid types.UID) owner.Existence {
	if _, ok := p.machines.Get(uid); ok {
		return owner.Exists
	}
	if p.reader == nil {
		return owner.ExistenceUnknown
	}
	all := &v1alpha1.MachineList{}
	if err := p.reader.List(ctx, all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
		return owner.ExistenceUnknown
	}
	for n := range all.Items {
		if all.Items[n].UID == uid {
			return owner.Exists
		}
	}
	return owner.ExistsNot
}

// tagServers writes both tags onto servers that belong to a Machine and lack one: those that machine-controller made have no cluster
// ID, and those that an operator lets a Machine adopt have another Machine's UID. Only then may the collector ever consider them.
// The ports and the floating IP of a server are tagged first, since they are found by the old tag.
func (p *Project) tagServers(ctx context.Context, s *client.Session) {
	for _, u := range p.untagged() {
		if err := p.adoptAddresses(ctx, s, u); err != nil {
			log.FromContext(ctx).Info("The ports and the floating IP of a server cannot be tagged yet", "server", u.ID, "error", err.Error())
			continue
		}
		metadata := p.cluster.Metadata(u.Machine)
		if err := calls.TagServer(ctx, s, u.ID, u.Machine, metadata); err != nil {
			log.FromContext(ctx).Info("A server cannot be tagged yet", "server", u.ID, "error", err.Error())
			continue
		}
		p.mu.Lock()
		p.known.Servers.SetMetadata(u.ID, metadata)
		p.mu.Unlock()
	}
}

// untagged returns up to adoptions servers to be tagged, and notes that it was tried.
func (p *Project) untagged() []servers.Untagged {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, more := p.known.Untagged(adoptions, p.clock.Now())
	if more {
		p.Kick()
	}
	return found
}

// adoptAddresses writes the Machine's owner tag onto the ports and the floating IP of a server that is being adopted.
func (p *Project) adoptAddresses(ctx context.Context, s *client.Session, u servers.Untagged) error {
	p.mu.Lock()
	ports := p.known.AdoptedPorts(u)
	p.mu.Unlock()
	for _, a := range ports {
		if err := p.adoptPort(ctx, s, a); err != nil {
			return err
		}
	}
	return nil
}

// adoptPort writes the owner tags of a port and of the floating IP on it, that of the floating IP first.
func (p *Project) adoptPort(ctx context.Context, s *client.Session, a known.AdoptedPort) error {
	if a.FloatingIP != nil {
		if err := calls.TagFloatingIP(ctx, s, *a.FloatingIP, a.FloatingIPTag); err != nil {
			return err
		}
		p.mu.Lock()
		p.known.AdoptedIP(a, p.clock.Now())
		p.mu.Unlock()
	}
	if err := calls.TagPort(ctx, s, a.Port.ID, a.Tag); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.AdoptedPort(a, p.clock.Now())
	return nil
}
