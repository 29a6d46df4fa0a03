package set

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/memory"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// overdue is how long the cache may take to show a create or delete of this process. After that time the Machine is looked up live.
const overdue = 10 * time.Second

// expectations records, for each set, the creates and deletes of Machines by this process that the informer cache does not show yet, so
// that a stale cache never leads to a second create or delete (MC-34). Names are chosen before the create call. When the outcome of a call
// is unknown, drover looks up the name to find out.
type expectations struct {
	// live reads from the API server itself.
	live  client.Reader
	clock clock.PassiveClock
	sets  memory.Of[expected]
}

type expected struct {
	// open holds the writes that the cache does not show yet, by the names of the Machines.
	open map[string]write
	// readLive is true when this process has read the set and its Machines from the API server once. It must do so because an earlier
	// leader may have created or deleted Machines that the cache does not show yet.
	readLive bool
	// stoppedSince is when the first of the reconciles failed that have failed since; zero when the last one compared the set with its
	// Machines.
	stoppedSince time.Time
}

// write is a create or delete of a Machine.
type write struct {
	// deleted is the UID of the deleted Machine; empty for a create.
	deleted types.UID
	at      time.Time
}

func newExpectations(live client.Reader, now clock.PassiveClock) *expectations {
	return &expectations{live: live, clock: now}
}

// unconfirmed returns the creates and deletes that the cache does not show yet.
func (x *expectations) unconfirmed(set *v1alpha1.MachineSet) unconfirmed {
	u := unconfirmed{deleted: map[types.UID]bool{}}
	x.sets.Do(set, func(e *expected) {
		for _, w := range e.open {
			if w.deleted == "" {
				u.created++
			} else {
				u.deleted[w.deleted] = true
			}
		}
	})
	return u
}

// expect records a write: the deletion of the Machine with the UID deleted, or a create if deleted is empty.
func (x *expectations) expect(set *v1alpha1.MachineSet, name string, deleted types.UID) {
	x.sets.Do(set, func(e *expected) {
		if e.open == nil {
			e.open = map[string]write{}
		}
		e.open[name] = write{deleted, x.clock.Now()}
	})
}

// settled removes the write of a Machine: the cache shows it, or it has not happened.
func (x *expectations) settled(set *v1alpha1.MachineSet, name string) {
	x.sets.Do(set, func(e *expected) { delete(e.open, name) })
}

// gone removes the write of a Machine that the cache shows as deleted, or that the set released.
func (x *expectations) gone(set types.NamespacedName, m *v1alpha1.Machine) {
	x.sets.Named(set, func(e *expected) { delete(e.open, m.Name) })
}

// stopped records that a reconcile failed before it compared the set with its Machines. It returns since when all reconciles fail.
func (x *expectations) stopped(set *v1alpha1.MachineSet) (since time.Time) {
	x.sets.Do(set, func(e *expected) {
		if e.stoppedSince.IsZero() {
			e.stoppedSince = x.clock.Now()
		}
		since = e.stoppedSince
	})
	return since
}

// notStopped records that a reconcile compared the set with its Machines.
func (x *expectations) notStopped(set *v1alpha1.MachineSet) {
	x.sets.Do(set, func(e *expected) { e.stoppedSince = time.Time{} })
}

// prune removes the creates and deletes that the cache shows by now. It returns those that are overdue, and the time until the next one is
// overdue.
func (x *expectations) prune(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (late map[string]write, wait time.Duration) {
	shown := make(map[string]*v1alpha1.Machine, len(machines))
	for _, m := range machines {
		shown[m.Name] = m
	}
	late, now := map[string]write{}, x.clock.Now()
	x.sets.Do(set, func(e *expected) {
		for name, w := range e.open {
			m := shown[name]
			alive := m != nil && m.UID == w.deleted && m.DeletionTimestamp.IsZero()
			switch left := overdue - now.Sub(w.at); {
			case w.deleted == "" && m != nil, w.deleted != "" && !alive:
				delete(e.open, name)
			case left > 0:
				wait = rollout.Soonest(wait, left)
			default:
				late[name] = w
			}
		}
	})
	return late, wait
}

// verify compares the creates and deletes of this process with what the cache shows, and looks up overdue ones live.
func (x *expectations) verify(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (time.Duration, error) {
	late, wait := x.prune(set, machines)
	for name, w := range late {
		m, err := x.lookUp(ctx, set, name)
		if err != nil {
			return 0, err
		}
		alive := m != nil && m.DeletionTimestamp.IsZero()
		happened := alive && metav1.IsControlledBy(m, set)
		if w.deleted != "" {
			happened = !alive || m.UID != w.deleted
		}
		if !happened {
			x.settled(set, name)
			continue
		}
		x.expect(set, name, w.deleted)
		wait = rollout.Soonest(wait, overdue)
	}
	return wait, nil
}

// lookUp reads a Machine from the API server itself. It returns nil when there is none.
func (x *expectations) lookUp(ctx context.Context, set *v1alpha1.MachineSet, name string) (*v1alpha1.Machine, error) {
	m := &v1alpha1.Machine{}
	err := x.live.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for Machine %s: %w", name, err)
	}
	return m, nil
}

// readSetLive reads the set from the API server before this process creates Machines of the set or chooses some for deletion, because the
// cache may not show yet that the set's size has changed or that the set was deleted. It returns [ownership.ErrCacheOld] when the cache shows another
// spec than the API server, or when the set is being deleted or gone.
//
// Before the first such decision it also reads the set's Machines, because the cache may not show yet what an earlier leader created or
// deleted. It records the differences as expectations, and reports whether there are any.
func (x *expectations) readSetLive(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (news bool, err error) {
	if err := ownership.CheckCurrent(ctx, x.live, v1alpha1.MachineSetKind, set); err != nil {
		return false, err
	}
	known := false
	if x.sets.Do(set, func(e *expected) { known = e.readLive }); known {
		return false, nil
	}
	return x.readMachinesLive(ctx, set, machines)
}

// readMachinesLive reads the set's Machines from the API server. It records the differences from the cache as expectations, and reports
// whether there are any.
func (x *expectations) readMachinesLive(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (news bool, err error) {
	var list v1alpha1.MachineList
	if err := x.live.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
		return false, fmt.Errorf("listing Machines: %w", err)
	}
	known := map[string]bool{}
	for _, m := range machines {
		known[m.Name] = true
	}
	alive := map[types.UID]bool{}
	for i := range list.Items {
		m := &list.Items[i]
		if !metav1.IsControlledBy(m, set) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		alive[m.UID] = true
		if !known[m.Name] {
			x.expect(set, m.Name, "")
			news = true
		}
	}
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() && !alive[m.UID] {
			x.expect(set, m.Name, m.UID)
			news = true
		}
	}
	x.sets.Do(set, func(e *expected) { e.readLive = true })
	return news, nil
}
