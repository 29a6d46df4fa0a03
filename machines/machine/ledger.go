package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// probeLife is how long one Machine may try alone before another may.
const probeLife = 5 * time.Minute

// ledger keeps, for each group, the shortages that its Machines have met and how their joins ended, as the group's status
// says, and which Machine tries for all of them once a wait is over. The status is read when a group is seen first and
// written at each change; who tries is not worth remembering beyond the process.
type ledger struct {
	mu     sync.Mutex
	groups map[types.UID]*account
	// wake brings Machines back that wait for the one that tries.
	wake func(types.NamespacedName)
}

type account struct {
	backoffs []v1alpha1.GroupBackoff
	joins    string
	// stored is what the group's status says since this process last read or wrote it. The cache may show what it said before.
	stored groupStatus
	// probe is the Machine that tries for all, until then.
	probe types.UID
	until time.Time
	// made is when a server was asked for, by Machine, while shortages are remembered.
	made    map[types.UID]time.Time
	waiting map[types.NamespacedName]bool
}

func newLedger() *ledger {
	return &ledger{groups: map[types.UID]*account{}, wake: func(types.NamespacedName) {}}
}

// of gives the group's account; the mutex is held.
func (l *ledger) of(g group) *account {
	a, ok := l.groups[g.holder.GetUID()]
	if ok {
		return a
	}
	a = &account{made: map[types.UID]time.Time{}, waiting: map[types.NamespacedName]bool{}}
	switch o := g.holder.(type) {
	case *v1alpha1.MachineDeployment:
		a.backoffs, a.joins = o.Status.Backoffs, o.Status.RecentJoins
	case *v1alpha1.MachineSet:
		a.backoffs, a.joins = o.Status.Backoffs, o.Status.RecentJoins
	case *v1alpha1.Machine:
		a.backoffs = o.Status.Backoffs
	}
	a.stored = groupStatus{a.backoffs, a.joins}
	l.groups[g.holder.GetUID()] = a
	return a
}

// admission says whether a Machine may ask the cloud for a server now.
type admission struct {
	// shortage is why not; nil when nothing is short.
	shortage *v1alpha1.GroupBackoff
	// slow: joins keep failing, and one server at a time is tried.
	slow bool
	// free: it may.
	free bool
	// again is when to ask again; zero: when it is woken.
	again time.Time
}

// admit lets a Machine through when nothing is short; when a wait is over, one Machine for all of its group.
func (l *ledger) admit(g group, m *v1alpha1.Machine, ask asked, raised, now time.Time) admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(g)
	v := admission{slow: joinsFail(a.joins)}
	if e := standing(a.backoffs, ask, raised); e != nil {
		v.shortage = new(*e)
	}
	taken := a.probe != "" && a.probe != m.UID && a.until.After(now)
	switch {
	case v.shortage != nil && v.shortage.Until.After(now):
		v.again = v.shortage.Until.Time
	case v.shortage == nil && !v.slow:
		v.free = true
		return v
	case taken:
		v.again = a.until
	default:
		a.probe, a.until = m.UID, now.Add(probeLife)
		v.free = true
		return v
	}
	a.waiting[client.ObjectKeyFromObject(m)] = true
	return v
}

// failed notes a failure of the cloud, and returns the shortage that it has become for the group; nil when it has not.
func (l *ledger) failed(g group, m *v1alpha1.Machine, ask asked, err *fault.Error, now time.Time) *v1alpha1.GroupBackoff {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(g)
	a.backoffs = withFailure(a.backoffs, ask, err, now)
	l.endProbe(a, m.UID)
	l.wakeAll(a)
	if e := standing(a.backoffs, ask, time.Time{}); e != nil {
		return new(*e)
	}
	return nil
}

// made notes that the cloud has taken the order for a server.
func (l *ledger) made(g group, m *v1alpha1.Machine, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.of(g); len(a.backoffs) > 0 {
		a.made[m.UID] = now
	}
}

// succeeded notes that a server has become ACTIVE. It tells whether that changed what is remembered.
func (l *ledger) succeeded(g group, m *v1alpha1.Machine, ask asked, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(g)
	left := withSuccess(a.backoffs, ask, a.made[m.UID], now)
	delete(a.made, m.UID)
	changed := len(left) != len(a.backoffs)
	a.backoffs = left
	if !joinsFail(a.joins) {
		l.endProbe(a, m.UID)
	}
	if changed {
		l.wakeAll(a)
	}
	return changed
}

// joined notes whether a server has become a node; nodes is how many the group has. It tells whether that changed what is
// remembered.
func (l *ledger) joined(g group, m *v1alpha1.Machine, well bool, nodes int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(g)
	joins := withJoin(a.joins, well, nodes)
	changed := joins != a.joins
	a.joins = joins
	l.endProbe(a, m.UID)
	if changed {
		l.wakeAll(a)
	}
	return changed
}

// yield is for a Machine that tries no more for now: it failed for a reason of its own.
func (l *ledger) yield(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.groups {
		if a.probe == uid {
			l.endProbe(a, uid)
			l.wakeAll(a)
		}
	}
}

// leave is for a Machine that goes.
func (l *ledger) leave(uid types.UID) {
	l.yield(uid)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.groups, uid)
	for _, a := range l.groups {
		delete(a.made, uid)
	}
}

func (l *ledger) endProbe(a *account, uid types.UID) {
	if a.probe == uid {
		a.probe, a.until = "", time.Time{}
	}
}

func (l *ledger) wakeAll(a *account) {
	for key := range a.waiting {
		l.wake(key)
	}
	clear(a.waiting)
}

// groupStatus is what the status of a group remembers of its back-offs and joins.
type groupStatus struct {
	Backoffs    []v1alpha1.GroupBackoff `json:"backoffs,omitempty"`
	RecentJoins string                  `json:"recentJoins,omitempty"`
}

// state returns what is remembered of a group, and whether its status must be written for that.
func (l *ledger) state(g group) (s groupStatus, unwritten bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(g)
	s = groupStatus{a.backoffs, a.joins}
	return s, !equality.Semantic.DeepEqual(s, a.stored)
}

// wrote notes what the group's status says now.
func (l *ledger) wrote(g group, s groupStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(g).stored = s
}

// writeGroup brings what is remembered to the group's status: in a write of its own, or with the Machine's when it is alone.
func (r *Reconciler) writeGroup(ctx context.Context, p *pass) error {
	status, unwritten := r.ledger.state(p.group)
	kind := v1alpha1.MachineDeploymentKind.Kind
	switch p.group.holder.(type) {
	case *v1alpha1.Machine:
		p.m.Status.Backoffs = status.Backoffs
		return nil
	case *v1alpha1.MachineSet:
		kind = v1alpha1.MachineSetKind.Kind
	}
	if !unwritten {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encoding the back-offs: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"namespace": p.group.holder.GetNamespace(), "name": p.group.holder.GetName(), "uid": string(p.group.holder.GetUID())},
		"status":   fields,
	}}
	err = r.Control.GetClient().Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the back-offs of %s %s: %w", kind, p.group.holder.GetName(), err)
	}
	r.ledger.wrote(p.group, status)
	return nil
}
