package set

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// overdue is when something that this process has done and the cache does not show is looked up live.
const overdue = 10 * time.Second

// pending remembers what this process has done to the Machines of each set and what the cache does not show yet, so
// that a stale cache never makes or deletes twice (MC-34). Names are chosen before the create call: a call whose outcome
// is unknown is settled by looking the name up.
type pending struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]*pendingSet
}

type pendingSet struct {
	uid     types.UID
	created map[string]time.Time
	deleted map[types.UID]deletion
	// looked: the set and its Machines were read live once since this process began, because an earlier leader may have
	// done something that the cache does not show.
	looked bool
}

// deletion is when a Machine was deleted.
type deletion struct {
	name string
	at   time.Time
}

func newPending() *pending { return &pending{sets: map[types.NamespacedName]*pendingSet{}} }

// entry returns the set's record; the mutex is held. A set of the same name that came later starts anew.
func (p *pending) entry(set *v1alpha1.MachineSet) *pendingSet {
	key := client.ObjectKeyFromObject(set)
	e := p.sets[key]
	if e == nil || e.uid != set.UID {
		e = &pendingSet{uid: set.UID, created: map[string]time.Time{}, deleted: map[types.UID]deletion{}}
		p.sets[key] = e
	}
	return e
}

func (p *pending) forget(set types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sets, set)
}

// of returns how many Machines were made, and which were deleted, that the cache does not show so.
func (p *pending) of(set *v1alpha1.MachineSet) (unseen int, deleted map[types.UID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entry(set)
	deleted = make(map[types.UID]bool, len(e.deleted))
	for uid := range e.deleted {
		deleted[uid] = true
	}
	return len(e.created), deleted
}

func (p *pending) create(set *v1alpha1.MachineSet, name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entry(set).created[name] = now
}

func (p *pending) notCreated(set *v1alpha1.MachineSet, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entry(set).created, name)
}

func (p *pending) delete(set *v1alpha1.MachineSet, m *v1alpha1.Machine, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entry(set).deleted[m.UID] = deletion{name: m.Name, at: now}
}

func (p *pending) notDeleted(set *v1alpha1.MachineSet, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entry(set).deleted, uid)
}

// gone takes note of a Machine that the cache showed to be gone.
func (p *pending) gone(set types.NamespacedName, m *v1alpha1.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.sets[set]; e != nil {
		delete(e.created, m.Name)
		delete(e.deleted, m.UID)
	}
}

// hasLooked reports whether this process has read the set's Machines live.
func (p *pending) hasLooked(set *v1alpha1.MachineSet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entry(set).looked
}

// hasNowLooked takes note that this process has read the set's Machines live.
func (p *pending) hasNowLooked(set *v1alpha1.MachineSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entry(set).looked = true
}

// late is what the cache should have shown by now.
type late struct {
	created []string
	deleted map[types.UID]string
}

// settle drops what the cache shows by now, and returns what has been waited for too long and how long the next may
// take.
func (p *pending) settle(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine, now time.Time) (l late, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entry(set)
	alive := make(map[types.UID]bool, len(machines))
	for _, m := range machines {
		delete(e.created, m.Name)
		alive[m.UID] = m.DeletionTimestamp.IsZero()
	}
	l.deleted = map[types.UID]string{}
	for uid, d := range e.deleted {
		switch left := overdue - now.Sub(d.at); {
		case !alive[uid]:
			delete(e.deleted, uid)
		case left > 0:
			wait = soonest(wait, left)
		default:
			l.deleted[uid] = d.name
		}
	}
	for name, at := range e.created {
		if left := overdue - now.Sub(at); left > 0 {
			wait = soonest(wait, left)
		} else {
			l.created = append(l.created, name)
		}
	}
	return l, wait
}

// settlePending compares what was done with what the cache shows, and looks up live what is overdue.
func (r *Reconciler) settlePending(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (time.Duration, error) {
	l, wait := r.pending.settle(set, machines, r.clock.Now())
	for _, name := range l.created {
		m, err := r.lookUp(ctx, set, name)
		if err != nil {
			return 0, err
		}
		if m == nil || !metav1.IsControlledBy(m, set) || !m.DeletionTimestamp.IsZero() {
			r.pending.notCreated(set, name)
			continue
		}
		r.pending.create(set, name, r.clock.Now())
		wait = soonest(wait, overdue)
	}
	for uid, name := range l.deleted {
		m, err := r.lookUp(ctx, set, name)
		if err != nil {
			return 0, err
		}
		if m != nil && m.UID == uid && m.DeletionTimestamp.IsZero() {
			r.pending.notDeleted(set, uid)
			continue
		}
		r.pending.delete(set, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}, r.clock.Now())
		wait = soonest(wait, overdue)
	}
	return wait, nil
}

// lookUp reads a Machine from the API server itself; nil when there is none.
func (r *Reconciler) lookUp(ctx context.Context, set *v1alpha1.MachineSet, name string) (*v1alpha1.Machine, error) {
	m := &v1alpha1.Machine{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for Machine %s: %w", name, err)
	}
	return m, nil
}

// errCacheOld ends a pass whose cache shows another spec of the set than the API server, or a set that is gone.
var errCacheOld = errors.New("the cache shows an older MachineSet")

// lookOnce reads the set and its Machines from the API server before this process makes, or chooses for deletion, the first
// Machine of the set: an earlier leader may have resized the set, and made and deleted Machines, and the cache does not show
// it yet. lookOnce records those Machines as pending and reports whether there are any. It returns errCacheOld while the
// cache shows another spec of the set, or a set that is gone.
func (r *Reconciler) lookOnce(ctx context.Context, set *v1alpha1.MachineSet, machines []*v1alpha1.Machine) (news bool, err error) {
	if r.pending.hasLooked(set) {
		return false, nil
	}
	var now v1alpha1.MachineSet
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(set), &now); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the MachineSet: %w", err)
	}
	if now.UID != set.UID || now.Generation != set.Generation {
		return false, errCacheOld
	}
	var list v1alpha1.MachineList
	if err := r.live.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
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
			r.pending.create(set, m.Name, r.clock.Now())
			news = true
		}
	}
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() && !alive[m.UID] {
			r.pending.delete(set, m, r.clock.Now())
			news = true
		}
	}
	r.pending.hasNowLooked(set)
	return news, nil
}
