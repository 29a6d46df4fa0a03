package nodegroup

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/rollout"
)

const (
	// writeDeadline bounds one call with all its attempts; the autoscaler gives up after 5 s.
	writeDeadline = 4 * time.Second
	// conflicts is how often a write is decided anew because somebody else was faster.
	conflicts = 50
	// settleEvery is the pause before a write with an unknown outcome is sent again.
	settleEvery = 100 * time.Millisecond
)

// resize is a call that changes a group.
type resize struct {
	// reason is the Event's.
	reason string
	// asked is how many requests for nodes are to be taken back; 0 for other calls.
	asked int64
	// decide says what to write, given what is known now. It may be asked several times.
	decide func(*Snapshot, *group) (change, error)
}

// errConflict: the deployment has changed since the decision, and our write did not land.
var errConflict = errors.New("the deployment has changed")

// locks are one lock per group; waiting for one ends with the caller's context.
type locks struct{ byID sync.Map }

// of gives the lock of a group: who can put something in has it, until it takes it out again.
func (l *locks) of(id string) chan struct{} {
	slot, _ := l.byID.LoadOrStore(id, make(chan struct{}, 1))
	return slot.(chan struct{})
}

func (l *locks) take(ctx context.Context, id string) (release func(), err error) {
	lock := l.of(id)
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, unavailable(ctx.Err(), "waiting for other calls on %s, nothing was changed", id)
	}
}

// resize decides and writes, one call per group at a time.
func (g *Groups) resize(ctx context.Context, id string, r resize) error {
	err := g.change(ctx, id, r)
	if err != nil {
		g.metrics.failed(r.reason, err)
	}
	return err
}

func (g *Groups) change(ctx context.Context, id string, r resize) error {
	e, err := g.begin(ctx, id, false)
	if err != nil {
		return err
	}
	release, err := g.locks.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if ctx.Err() != nil {
		return unavailable(ctx.Err(), "beginning to change %s, nothing was changed", id)
	}
	return g.carryOut(ctx, e, r)
}

// carryOut writes, again while others are faster. Once begun it is finished even when the caller goes away: a caller that
// has given up must be able to rely on all or nothing (CA-C12, C77). The caller has the group's lock.
func (g *Groups) carryOut(ctx context.Context, e *entry, r resize) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeDeadline)
	defer cancel()
	for range conflicts {
		err := g.attempt(ctx, e.id, r)
		if !errors.Is(err, errConflict) {
			return err
		}
		if err := g.reread(ctx, e.owner); err != nil {
			return err
		}
	}
	return refuse(Unavailable, "changing %s: others changed it %d times in a row, nothing was changed", e.id, conflicts)
}

// begin finds the group that is to be changed, and refuses while what we know may be wrong, and an order that nobody would
// carry out, or that was decided on a size that another replica had changed.
func (g *Groups) begin(ctx context.Context, id string, grows bool) (*entry, error) {
	if _, err := g.entry(id); err != nil {
		return nil, err
	}
	if err := g.contact.check(g.clock.Now()); err != nil {
		return nil, err
	}
	moved, err := g.attend(ctx)
	if err != nil {
		return nil, err
	}
	e, err := g.entry(id)
	switch {
	case err != nil || !grows:
		return e, err
	case moved[id]:
		return nil, refuse(Unavailable, "increasing %s: another replica has changed its size to %d, which this one has not told yet; nothing was changed", id, e.target)
	}
	return e, g.contact.checkLeader(g.clock.Now())
}

// attempt decides on the newest version that is known and writes it if nobody has changed it since.
func (g *Groups) attempt(ctx context.Context, id string, r resize) error {
	s := g.view.Load().snapshot
	grp := s.groups[id]
	if grp == nil {
		return refuse(FailedPrecondition, "changing %s: its object is gone", id)
	}
	if err := rollout.CheckSize(grp.owner.replicas); err != nil {
		return refuse(FailedPrecondition, "changing %s: %v", id, err)
	}
	c, err := r.decide(s, grp)
	if err != nil {
		return err
	}
	if lowered := int64(grp.target) - int64(c.replicas); r.asked > 0 && lowered < r.asked {
		g.recorder.Eventf(grp.owner.Object, nil, corev1.EventTypeNormal, "DecreaseClamped", "Scale",
			"The autoscaler asked to take back %d requests for nodes; %d are open above the minimum of %d", r.asked, lowered, grp.min)
	}
	if c.none(grp) {
		g.adopt(grp.owner.Object, c.kept...)
		ctrl.LoggerFrom(ctx).Info("nothing to change", "group", id, "call", r.reason, "size", grp.target)
		return nil
	}
	after, err := g.commit(ctx, grp, c)
	if err != nil {
		return err
	}
	g.contact.made(g.clock.Now())
	g.adopt(after, c.kept...)
	g.metrics.changed(id, r.reason, grp.target, c.replicas)
	g.recorder.Eventf(after, nil, corev1.EventTypeNormal, r.reason, "Scale", "Size %d -> %d for the autoscaler%s", grp.target, c.replicas, naming(c.remove))
	ctrl.LoggerFrom(ctx).Info("changed a node group", "group", id, "call", r.reason, "before", grp.target, "after", c.replicas, "removed", len(c.remove))
	return nil
}

// naming lists the Machines that go, for an Event.
func naming(members []*member) string {
	const most = 10
	if len(members) == 0 {
		return ""
	}
	var list []string
	for _, m := range members[:min(most, len(members))] {
		list = append(list, m.machine.Name)
	}
	if len(members) > most {
		list = append(list, "…")
	}
	return ", removing " + strings.Join(list, ", ")
}

// reread takes the object from the API server itself.
func (g *Groups) reread(ctx context.Context, o *owner) error {
	live := o.blank()
	if err := g.live.Get(ctx, o.key(), live); err != nil {
		if apierrors.IsNotFound(err) {
			return refuse(FailedPrecondition, "changing %s: its %s is gone", o.id, o.kind())
		}
		return unavailable(err, "reading %s %s, nothing was changed", o.kind(), o.key())
	}
	g.adopt(live)
	return nil
}

// commit sends the write. When its outcome stays unknown the very same write is sent again: if it succeeds now, the
// first one has not and cannot any more; if it conflicts, one live read tells whether the first one was the reason
// (rulings on CA-C62).
func (g *Groups) commit(ctx context.Context, grp *group, c change) (client.Object, error) {
	patch, err := c.patch(grp, g.clock.Now())
	if err != nil {
		return nil, err
	}
	var unknown error
	for {
		after := grp.owner.blank()
		err := g.writer.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(Manager))
		switch {
		case err == nil:
			return after, nil
		case apierrors.IsConflict(err) && unknown == nil:
			return nil, errConflict
		case apierrors.IsConflict(err):
			if after, err := g.settle(ctx, grp, c); !isUnknown(err) {
				return after, err
			}
		case !isUnknown(err):
			return nil, &Error{Kind: FailedPrecondition, Message: "changing " + grp.id + ", nothing was changed", Err: err}
		}
		unknown = err
		select {
		case <-ctx.Done():
			g.recorder.Eventf(grp.owner.Object, nil, corev1.EventTypeWarning, "WriteUnsettled", "Scale", "Whether size %d -> %d was written is not known: %v", grp.target, c.replicas, unknown)
			return nil, unavailable(unknown, "changing %s: the outcome is not known", grp.id)
		case <-g.clock.After(settleEvery):
		}
	}
}

// settle finds out whether an earlier sending of the write has landed.
func (g *Groups) settle(ctx context.Context, grp *group, c change) (client.Object, error) {
	live := grp.owner.blank()
	err := g.live.Get(ctx, grp.owner.key(), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, refuse(FailedPrecondition, "changing %s: its %s is gone", grp.id, grp.owner.kind())
	case err != nil:
		return nil, err
	case c.landed(grp.owner, ownerOf(live)):
		return live, nil
	case live.GetGeneration() > grp.owner.GetGeneration()+1 && len(c.remove) == 0:
		return nil, refuse(Unavailable, "changing %s: others have changed it since, and whether our write came first cannot be seen", grp.id)
	}
	return nil, errConflict
}

// isUnknown tells whether a write may have landed although it failed: everything but the API server's own refusal.
func isUnknown(err error) bool {
	if err == nil || errors.Is(err, errConflict) || KindOf(err) != "" {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == 0 || code == 408 || code == 429 || code >= 500
}
