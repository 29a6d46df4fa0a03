package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/inventory/state"
)

// adoptions is the maximum number of servers that are tagged between two lists of servers, so that tagging does not delay the lists
// when drover takes over a cluster. When more servers must be tagged, the next list is made soon, and tagging continues after it.
const adoptions = 25

// Adopt makes the Machine the owner of the server that an operator allows the Machine to adopt. drover writes the tags of the
// server after the next list. If the server has another owner, Adopt sets m.Refusal to the reason instead. It returns Transient
// while it is not known whether the server has another owner.
func (p *Project) Adopt(ctx context.Context, m *state.Machine) error {
	var of state.ServerRow
	var present bool
	p.With(func(k *state.Project) { of, present = k.Adoptee(m) })
	if !present {
		return nil
	}
	was := of.Metadata.Machine
	reason, undecided := p.o.Cluster.WhyForeign(m, &of, p.existence(ctx, was))
	m.Refusal = reason
	switch {
	case undecided:
		return fault.New(fault.Transient, fault.CodeUnsettled, "%s", reason)
	case reason == "" && was != m.UID:
		var recorded bool
		p.With(func(k *state.Project) { recorded = k.Servers.Adopt(of.ID, was, m.UID) })
		if recorded {
			log.FromContext(ctx).Info("Adopting server, as the operator's annotation allows", "server", of.ID, "machineUID", m.UID, "formerMachineUID", was)
			p.Kick()
		}
	}
	return nil
}

// existence reports whether a Machine with that UID exists, in any namespace.
func (p *Project) existence(ctx context.Context, uid types.UID) state.Existence {
	if _, ok := p.o.Machines.Get(uid); ok {
		return state.Exists
	}
	if p.o.Reader == nil {
		return state.ExistenceUnknown
	}
	all := &v1alpha1.MachineList{}
	if err := p.o.Reader.List(ctx, all, ctrlclient.UnsafeDisableDeepCopy); err != nil {
		return state.ExistenceUnknown
	}
	for n := range all.Items {
		if all.Items[n].UID == uid {
			return state.Exists
		}
	}
	return state.ExistsNot
}

// tagServers writes both tags (the Machine's UID and the cluster ID) onto servers that lack one of them: servers of
// machine-controller have no cluster ID, and adopted servers have another Machine's UID. The collector of orphans considers only
// servers with both tags. The ports and the floating IP of an adopted server are tagged first, because drover finds them by the
// UID in the server's old tag.
func (p *Project) tagServers(ctx context.Context, s *client.Session) {
	var found []state.Untagged
	var more bool
	p.With(func(k *state.Project) { found, more = k.Servers.Untagged(adoptions, p.o.Clock.Now()) })
	if more {
		p.Kick()
	}
	for _, u := range found {
		if err := p.adoptAddresses(ctx, s, u); err != nil {
			log.FromContext(ctx).Info("Cannot tag the ports and the floating IP of a server yet", "server", u.ID, "error", err.Error())
			continue
		}
		if err := tagServer(ctx, s, u.ID, p.o.Cluster, u.Machine); err != nil {
			log.FromContext(ctx).Info("Cannot tag a server yet", "server", u.ID, "error", err.Error())
			continue
		}
		p.With(func(k *state.Project) { k.Servers.Tagged(u.ID, u.Machine) })
	}
}

// adoptAddresses writes the Machine's owner tag onto the ports of a server that is being adopted, and onto their floating IP before
// the port that has it.
func (p *Project) adoptAddresses(ctx context.Context, s *client.Session, u state.Untagged) error {
	var found []state.Adopted
	p.With(func(k *state.Project) { found = k.AdoptedAddresses(u) })
	for _, a := range found {
		if err := tagAddress(ctx, s, a); err != nil {
			return err
		}
		p.With(func(k *state.Project) { k.Adopted(a, p.o.Clock.Now()) })
	}
	return nil
}
