package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
)

// admit asks the group whether the Machine may ask the cloud for a server now.
func (r *Reconciler) admit(ctx context.Context, p *pass) (admission, error) {
	a := r.ledger.admit(p.group, p.m, p.asked(), p.facts.cloud.QuotaRaised, r.Clock.Now())
	if !a.free || !a.slow || p.group.set == "" {
		return a, nil
	}
	// Also a server that a predecessor of this process ordered is the one that is tried.
	peers, err := r.peers(ctx, p.m, p.group.set)
	for i := range peers {
		if peer := &peers[i]; peer.Spec.ProviderID != nil && peer.Status.NodeRef == nil && peer.DeletionTimestamp == nil {
			a.free = false
		}
	}
	return a, err
}

// peers are the other Machines of the set.
func (r *Reconciler) peers(ctx context.Context, m *v1alpha1.Machine, set types.UID) ([]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	err := r.Control.GetClient().List(ctx, &list, client.InNamespace(m.Namespace), client.MatchingFields{indexMachineSet: string(set)})
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of a set: %w", err)
	}
	var out []v1alpha1.Machine
	for i := range list.Items {
		if list.Items[i].UID != m.UID {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

func (p *pass) asked() asked {
	a := asked{machine: p.m.Name, revision: p.group.revision}
	if p.instance != nil {
		place := p.instance.Place()
		a.flavor, a.zone = place.Flavor, place.Zone
	}
	return a
}

// shortageOf returns the failure that a Machine shows while it waits for its group's back-off to end.
func shortageOf(e *v1alpha1.GroupBackoff, m *v1alpha1.Machine) *fault.Error {
	return &fault.Error{Class: fault.Class(e.Class), Code: fault.Code(e.Code), Message: e.MessageFor(m.Name)}
}

// failsInCloud notes what the cloud would not do. What others of the group would meet as well keeps them all back; the
// rest keeps back this Machine only.
func (r *Reconciler) failsInCloud(ctx context.Context, p *pass, err error) error {
	cause := fault.Of(err)
	if !fault.PolicyOf(cause.Class).OpensBackoff {
		r.fails(ctx, p, err)
		return nil
	}
	p.failure = cause
	e := r.ledger.failed(p.group, p.m, p.asked(), cause, r.Clock.Now())
	if e != nil {
		p.soonest(e.Until.Sub(r.Clock.Now()))
	}
	r.logFailure(ctx, p)
	return r.writeGroup(ctx, p)
}

// serverFails notes that the server has gone to ERROR. The first one in a row keeps back its own Machine only. The second,
// when no other server of the group has become ACTIVE in between, keeps the group back and is shown on all of its Machines
// (fault.GroupWait).
func (r *Reconciler) serverFails(ctx context.Context, p *pass, cause *fault.Error) error {
	if fault.PolicyOf(cause.Class).OpensBackoff {
		return r.failsInCloud(ctx, p, cause)
	}
	ask := p.asked()
	ask.server = p.facts.cloud.Server.ID
	r.ledger.failed(p.group, p.m, ask, cause, r.Clock.Now())
	r.fails(ctx, p, cause)
	return r.writeGroup(ctx, p)
}

// settles notes that the server works, once, when it has become ACTIVE or its node has come: it disproves the shortages
// from before.
func (r *Reconciler) settles(ctx context.Context, p *pass) error {
	s := p.facts.cloud.Server
	works := s != nil && (s.State == cloud.ServerActive || p.facts.joined)
	if !works || p.facts.deleting || p.group.holder == nil {
		return nil
	}
	r.backoff.forget(p.m.UID)
	for _, c := range p.base.Status.Conditions {
		if c.Type == v1alpha1.ConditionServerReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	if !r.ledger.succeeded(p.group, p.m, p.asked(), r.Clock.Now()) {
		return nil
	}
	return r.writeGroup(ctx, p)
}

// settlesJoin notes how the waiting for a node has ended.
func (r *Reconciler) settlesJoin(ctx context.Context, p *pass, well bool) error {
	if p.group.holder == nil || p.group.set == "" {
		return nil
	}
	nodes := 0
	if !well {
		peers, err := r.peers(ctx, p.m, p.group.set)
		if err != nil {
			return err
		}
		for i := range peers {
			if peers[i].Status.NodeRef != nil {
				nodes++
			}
		}
	}
	if !r.ledger.joined(p.group, p.m, well, nodes) {
		return nil
	}
	return r.writeGroup(ctx, p)
}
