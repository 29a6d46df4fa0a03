package nodegroup

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

const (
	// writeDeadline bounds one call with all its attempts to write, because the autoscaler gives up after 5 s.
	writeDeadline = 4 * time.Second
	// conflicts is how often a write is decided again after a conflict with another writer.
	conflicts = 50
)

// request is a call that changes a group.
type request struct {
	// reason is the reason of the Event that reports the change.
	reason string
	// grows is true for an increase, which needs a leader that creates the Machines.
	grows bool
	// decide returns the change for a group of the snapshot. After a conflict with another writer, it is called again with a newer snapshot.
	decide func(s *model.Snapshot, g *model.Group) (model.Change, error)
}

// writer changes the objects of groups. It handles one call per group at a time, and each call makes one conditional write.
type writer struct {
	client    client.Client
	live      client.Reader
	clock     clock.Clock
	recorder  events.EventRecorder
	metrics   *metrics
	store     *store
	freshness *freshness
	sizes     *sizes
	locks     locks
}

// locks holds, by group id, a lock for each group that a call has locked or waits for. The zero value is ready for use.
type locks struct {
	mu   sync.Mutex
	byID map[string]*lock
}

// lock is the lock of one group.
type lock struct {
	// turn has room for one element: send to lock, receive to unlock. Unlike with a mutex, a caller can stop waiting when its
	// context ends.
	turn chan struct{}
	// calls is the number of calls that hold the lock or wait for it.
	calls int
}

// take waits until it has locked the group, or until ctx ends.
func (l *locks) take(ctx context.Context, id string) (release func(), err error) {
	of := l.enter(id)
	select {
	case of.turn <- struct{}{}:
		return func() { <-of.turn; l.leave(id) }, nil
	case <-ctx.Done():
		l.leave(id)
		return nil, model.Unavailablef(ctx.Err(), "gave up waiting for other calls on %s (nothing was changed)", id)
	}
}

// enter returns the lock of a group, and counts one more call for it.
func (l *locks) enter(id string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*lock{}
	}
	if l.byID[id] == nil {
		l.byID[id] = &lock{turn: make(chan struct{}, 1)}
	}
	l.byID[id].calls++
	return l.byID[id]
}

// leave counts one call less for the lock of a group. The last call deletes the lock.
func (l *locks) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[id].calls--; l.byID[id].calls == 0 {
		delete(l.byID, id)
	}
}

// resize decides on the change and writes it, for one call per group at a time.
func (w *writer) resize(ctx context.Context, id string, r request) error {
	err := w.inTurn(ctx, id, r)
	if err != nil {
		w.metrics.failed(r.reason, err)
	}
	return err
}

func (w *writer) inTurn(ctx context.Context, id string, r request) error {
	if err := w.admit(ctx, id, r); err != nil {
		return err
	}
	release, err := w.locks.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if ctx.Err() != nil {
		return model.Unavailablef(ctx.Err(), "beginning to change %s (nothing was changed)", id)
	}
	return w.carryOut(ctx, id, r)
}

// admit returns an error when the snapshot may be wrong. For an increase it also returns an error when no replica leads, or when
// this replica has answered with an old size because another replica had changed the size.
func (w *writer) admit(ctx context.Context, id string, r request) error {
	if _, err := w.store.entry(id); err != nil {
		return err
	}
	if err := w.freshness.check(); err != nil {
		return err
	}
	resized, err := w.sizes.ensureFresh(ctx)
	if err != nil {
		return err
	}
	e, err := w.store.entry(id)
	switch {
	case err != nil || !r.grows:
		return err
	case resized[id]:
		return model.Refusef(model.Unavailable, "increasing %s: nothing was changed, because another replica has changed the size to %d and this replica has answered with the older size until now", id, e.Target)
	}
	return w.freshness.checkLeader()
}

// carryOut writes the change, and tries again after conflicts. It finishes even when the caller disconnects, so that a change is
// made completely or not at all (CA-C12, C77). The caller holds the group's lock.
func (w *writer) carryOut(ctx context.Context, id string, r request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeDeadline)
	defer cancel()
	for range conflicts {
		s := w.store.published()
		g := s.Groups[id]
		if g == nil {
			return model.Refusef(model.FailedPrecondition, "changing %s: its object is gone", id)
		}
		err := w.attempt(ctx, s, g, r)
		if !errors.Is(err, errConflict) {
			return err
		}
		if err := w.reread(ctx, g.Owner); err != nil {
			return err
		}
	}
	return model.Refusef(model.Unavailable, "changing %s: other clients changed it %d times in a row; this call changed nothing", id, conflicts)
}

// attempt decides on the change from one snapshot of the group, and writes it unless the group's object has changed since.
func (w *writer) attempt(ctx context.Context, s *model.Snapshot, g *model.Group, r request) error {
	if err := rollout.CheckSize(g.Owner.Replicas); err != nil {
		return model.Refusef(model.FailedPrecondition, "changing %s: %v", g.ID, err)
	}
	if g.Owner.Restoring {
		return model.Refusef(model.Unavailable, "changing %s: nothing was changed, because a client has removed spec.replicas and drover has not restored it yet", g.ID)
	}
	c, err := r.decide(s, g)
	if err != nil {
		return err
	}
	log := ctrl.LoggerFrom(ctx).WithValues("group", g.ID, "call", r.reason)
	if lowered, clamped := c.Clamped(); clamped {
		w.recorder.Eventf(g.Owner.Object, nil, corev1.EventTypeNormal, "DecreaseClamped", "Scale",
			"The autoscaler asked to take back %d requests for nodes, but only %d are open above the minimum of %d", c.Asked, lowered, g.Min)
	}
	if c.None() {
		w.store.conceal(g, c.Kept)
		log.Info("Nothing to change", "size", g.Target)
		return nil
	}
	after, err := w.commit(ctx, c)
	if err != nil {
		return err
	}
	w.freshness.reach.AnsweredControl()
	w.store.conceal(g, c.Kept)
	w.store.adopt(after)
	w.metrics.changed(g.ID, r.reason, g.Target, c.Replicas, w.clock.Now())
	w.recorder.Eventf(after, nil, corev1.EventTypeNormal, r.reason, "Scale", "Size %d -> %d for the autoscaler%s", g.Target, c.Replicas, c.Naming())
	log.Info("Changed a node group", "before", g.Target, "after", c.Replicas, "removed", len(c.Remove))
	return nil
}

// reread reads the object from the API server and stores it.
//
// Errors: FailedPrecondition when the object no longer exists; Unavailable.
func (w *writer) reread(ctx context.Context, o *membership.Owner) error {
	live := o.Blank()
	if err := w.live.Get(ctx, o.Key(), live); err != nil {
		if apierrors.IsNotFound(err) {
			return model.Refusef(model.FailedPrecondition, "changing %s: its %s is gone", o.ID, o.Kind())
		}
		return model.Unavailablef(err, "reading %s %s (nothing was changed)", o.Kind(), o.Key())
	}
	if live.GetUID() != o.GetUID() {
		return model.Refusef(model.Unavailable, "changing %s: nothing was changed, because its %s was deleted and made again, and the watch has not shown the new one yet", o.ID, o.Kind())
	}
	w.store.adopt(live)
	return nil
}
