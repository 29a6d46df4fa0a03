package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/patch"
)

// mayCreate reports whether the Machine's group lets it ask the cloud for a server now.
func (r *Reconciler) mayCreate(ctx context.Context, p *pass) (backoff.Permission, error) {
	allowed := r.groups.Allow(p.group.holder, p.attempt(), p.facts.cloud.QuotaRaised, r.Clock.Now())
	if !allowed.Allowed || !allowed.JoinsFail || p.group.set == "" {
		return allowed, nil
	}
	// A server that a former leader ordered is the one that is tried.
	peers, err := r.peers(ctx, p.m, p.group.set)
	for i := range peers {
		if peer := &peers[i]; peer.Spec.ProviderID != nil && peer.Status.NodeRef == nil && peer.DeletionTimestamp == nil {
			allowed.Allowed = false
		}
	}
	return allowed, err
}

// peers returns the other Machines of the set.
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

// attempt returns what the Machine asks the cloud for.
func (p *pass) attempt() backoff.Attempt {
	a := backoff.Attempt{Machine: client.ObjectKeyFromObject(p.m), UID: p.m.UID, Revision: p.group.revision}
	if p.instance != nil {
		place := p.instance.Place()
		a.Flavor, a.Zone = place.Flavor, place.Zone
	}
	return a
}

// failsInCloud records what the cloud refused. A failure that other Machines of the group would meet as well opens the
// group's back-off; any other keeps back this Machine only.
func (r *Reconciler) failsInCloud(ctx context.Context, p *pass, err error) error {
	cause := fault.Of(err)
	if !fault.PolicyOf(cause.Class).OpensBackoff {
		r.fails(ctx, p, err)
		return nil
	}
	p.failure = cause
	e := r.groups.Failed(p.group.holder, p.attempt(), cause, r.Clock.Now())
	if e != nil {
		p.soonest(e.Until.Sub(r.Clock.Now()))
	}
	r.logFailure(ctx, p)
	return r.writeGroup(ctx, p)
}

// serverFails records that the server has gone to ERROR. The first one in a row keeps back its own Machine only. The second,
// when no other server of the group has become ACTIVE in between, keeps the group back and is shown on all of its Machines
// (fault.GroupWait).
func (r *Reconciler) serverFails(ctx context.Context, p *pass, cause *fault.Error) error {
	if fault.PolicyOf(cause.Class).OpensBackoff {
		return r.failsInCloud(ctx, p, cause)
	}
	attempt := p.attempt()
	attempt.Server = p.facts.cloud.Server.ID
	r.groups.Failed(p.group.holder, attempt, cause, r.Clock.Now())
	r.fails(ctx, p, cause)
	return r.writeGroup(ctx, p)
}

// settles records that the server works, once, when it has become ACTIVE or its node has joined: it disproves the group's
// back-offs from before.
func (r *Reconciler) settles(ctx context.Context, p *pass) error {
	s := p.facts.cloud.Server
	works := s != nil && (s.State == cloud.ServerActive || p.facts.joined)
	if !works || p.facts.deleting || p.group.holder == nil {
		return nil
	}
	r.retries.Forget(p.m.UID)
	for _, c := range p.base.Status.Conditions {
		if c.Type == v1alpha1.ConditionServerReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	if !r.groups.Succeeded(p.group.holder, p.attempt(), r.Clock.Now()) {
		return nil
	}
	return r.writeGroup(ctx, p)
}

// settlesJoin records how the wait for a node has ended.
func (r *Reconciler) settlesJoin(ctx context.Context, p *pass, ok bool) error {
	if p.group.holder == nil || p.group.set == "" {
		return nil
	}
	nodes := 0
	if !ok {
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
	if !r.groups.Joined(p.group.holder, p.m.UID, ok, nodes) {
		return nil
	}
	return r.writeGroup(ctx, p)
}

// writeGroup writes the group's back-offs and joins to the status of its deployment or set. Those of a Machine that is alone
// go with the next write of the Machine.
func (r *Reconciler) writeGroup(ctx context.Context, p *pass) error {
	holder := p.group.holder
	status, unwritten := r.groups.Status(holder)
	if _, alone := holder.(*v1alpha1.Machine); alone {
		p.m.Status.Backoffs = status.Backoffs
		return nil
	}
	if !unwritten {
		return nil
	}
	writer := patch.Writer{Client: r.Control.GetClient(), FieldManager: fieldOwner}
	err := writer.ApplyStatus(ctx, holder, &status)
	if len(status.JoinOutcomes) > 0 && apierrors.IsInternalError(err) {
		// The CRD may be that of a release without the field: then the API server answers 500 and stores nothing.
		older := status
		older.JoinOutcomes = nil
		err = writer.ApplyStatus(ctx, holder, &older)
	}
	if err != nil {
		return fmt.Errorf("writing the back-offs of the group of Machine %s: %w", p.m.Name, err)
	}
	r.groups.Written(holder, status)
	return nil
}
