package backoff

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
)

// ProbeTimeout is how long one Machine may be the half-open probe before another Machine may become it.
const ProbeTimeout = 5 * time.Minute

// Groups holds, for each group, the capacity back-offs and the join outcomes that the group's status shows, and the Machine
// that is the group's half-open probe. A group is identified by its holder: a *v1alpha1.MachineDeployment, a
// *v1alpha1.MachineSet, or a *v1alpha1.Machine without an owner. Groups reads the holder's status at the first use of a group;
// the caller writes the status after each change ([Groups.Status]). The probe is lost when the process ends. Groups is safe for
// concurrent use.
type Groups struct {
	mu     sync.Mutex
	groups map[types.UID]*group
	wake   func(types.NamespacedName)
}

type group struct {
	backoffs []v1alpha1.GroupBackoff
	joins    []v1alpha1.JoinOutcome
	// used is true when the group was used since the last Sweep.
	used bool
	// stored is the holder's status as this process last read or wrote it. The informer cache may show an older status.
	stored Status
	// probe is the Machine that tries to create a server for the whole group. It stays the probe until probeEnds.
	probe     types.UID
	probeEnds time.Time
	// ordered holds, by Machine, when the cloud accepted the Machine's create request. Only requests that were accepted while the
	// group had back-offs are recorded.
	ordered map[types.UID]time.Time
	waiting map[types.NamespacedName]bool
}

// Status holds the back-offs and joins of a group, as fields of its holder's status.
type Status struct {
	Backoffs     []v1alpha1.GroupBackoff `json:"backoffs,omitempty"`
	JoinOutcomes []v1alpha1.JoinOutcome  `json:"joinOutcomes,omitempty"`
	RecentJoins  string                  `json:"recentJoins,omitempty"`
}

// statusIn returns the back-offs and joins in the holder's status.
func statusIn(holder metav1.Object) Status {
	switch o := holder.(type) {
	case *v1alpha1.MachineDeployment:
		return Status{o.Status.Backoffs, o.Status.JoinOutcomes, o.Status.RecentJoins}
	case *v1alpha1.MachineSet:
		return Status{o.Status.Backoffs, o.Status.JoinOutcomes, o.Status.RecentJoins}
	case *v1alpha1.Machine:
		return Status{Backoffs: o.Status.Backoffs}
	}
	return Status{}
}

// NewGroups returns an empty store. When [Groups.TakeTurn] has not allowed a Machine to create a server and the Machine may ask
// again, the store calls wake with the Machine's name. wake must not block and must not call the store.
func NewGroups(wake func(types.NamespacedName)) *Groups {
	return &Groups{groups: map[types.UID]*group{}, wake: wake}
}

// Permission reports whether a Machine may request a server from the cloud now, and if not, why and until when.
type Permission struct {
	// Allowed reports whether the Machine may request a server.
	Allowed bool
	// Backoff is the group's back-off that applies to the Machine; nil when no back-off applies.
	Backoff *v1alpha1.GroupBackoff
	// JoinsFail reports whether new servers of the group keep failing to become Nodes. The group then creates one server at a time.
	JoinsFail bool
	// RetryAt is when the Machine must ask the store again, unless the store wakes it earlier; zero when Allowed is true.
	RetryAt time.Time
}

// TakeTurn reports whether a Machine may create a server, and makes it the group's probe where one is needed. It allows every Machine when
// no back-off applies to the requested server, unless the group's servers keep failing to join. After the wait of a back-off, or while
// servers keep failing to join, it allows one Machine of the group at a time. quotaRaised is when the quota was last raised; zero means that
// it was not raised.
func (s *Groups) TakeTurn(holder metav1.Object, a Attempt, quotaRaised, now time.Time) Permission {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupOf(holder)
	g.backoffs = bounded(g.backoffs, now)
	p := Permission{JoinsFail: joinsFail(g.joins), Backoff: activeFor(g.backoffs, a, quotaRaised)}
	probed := g.probe != "" && g.probe != a.UID && g.probeEnds.After(now)
	switch {
	case p.Backoff != nil && p.Backoff.Until.After(now):
		p.RetryAt = p.Backoff.Until.Time
	case p.Backoff == nil && !p.JoinsFail:
		p.Allowed = true
		return p
	case probed:
		p.RetryAt = g.probeEnds
	default:
		g.probe, g.probeEnds = a.UID, now.Add(ProbeTimeout)
		p.Allowed = true
		return p
	}
	g.waiting[a.Machine] = true
	return p
}

// Failed records that the cloud failed to create the requested server. It returns the back-off of the group that results from
// this failure; nil when the failure causes no back-off.
func (s *Groups) Failed(holder metav1.Object, a Attempt, err *fault.Error, now time.Time) *v1alpha1.GroupBackoff {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupOf(holder)
	g.backoffs = withFailure(g.backoffs, a, err, now)
	g.endProbe(a.UID)
	s.wakeAll(g)
	return activeFor(g.backoffs, a, time.Time{})
}

// Ordered records that the cloud has accepted the create request for a server.
func (s *Groups) Ordered(holder metav1.Object, machine types.UID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groupOf(holder); len(g.backoffs) > 0 {
		g.ordered[machine] = now
	}
}

// Succeeded records that a server has become ACTIVE, and reports whether that ended back-offs.
func (s *Groups) Succeeded(holder metav1.Object, a Attempt, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupOf(holder)
	left := withSuccess(g.backoffs, a, g.ordered[a.UID], now)
	delete(g.ordered, a.UID)
	changed := len(left) != len(g.backoffs)
	g.backoffs = left
	if !joinsFail(g.joins) {
		g.endProbe(a.UID)
	}
	if changed {
		s.wakeAll(g)
	}
	return changed
}

// Joined records whether a server has become a Node. nodes is the number of Nodes that the group has. Joined reports whether
// the recorded outcomes changed.
func (s *Groups) Joined(holder metav1.Object, machine types.UID, ok bool, nodes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupOf(holder)
	joins := withJoin(g.joins, ok, nodes)
	changed := !slices.Equal(joins, g.joins)
	g.joins = joins
	g.endProbe(machine)
	if changed {
		s.wakeAll(g)
	}
	return changed
}

// Release ends the probe of a Machine whose failure concerns only that Machine, so that another Machine may probe.
func (s *Groups) Release(machine types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseProbe(machine)
}

// Forget drops everything that the store holds about a deleted Machine. If the Machine is the probe of its group, another Machine
// may become the probe.
func (s *Groups) Forget(machine types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseProbe(machine)
	delete(s.groups, machine)
	for _, g := range s.groups {
		delete(g.ordered, machine)
	}
}

// Sweep drops the groups that were not used since the last Sweep. Ten minutes must lie between two calls: by then the waits and the probe
// of an unused group have ended, and all other data is in the status of its holder.
func (s *Groups) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.groups, func(_ types.UID, g *group) bool {
		used := g.used
		g.used = false
		return !used
	})
}

// Status returns the back-offs and joins of a group, and reports whether they differ from its holder's status.
func (s *Groups) Status(holder metav1.Object) (status Status, unwritten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupOf(holder)
	status = Status{Backoffs: g.backoffs, JoinOutcomes: g.joins, RecentJoins: lettersOf(g.joins)}
	return status, !equality.Semantic.DeepEqual(status, g.stored)
}

// Written records that the holder's status has been written.
func (s *Groups) Written(holder metav1.Object, status Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groupOf(holder).stored = status
}

// groupOf returns the group of a holder, and reads the holder's status when the group is new. The caller must hold mu.
func (s *Groups) groupOf(holder metav1.Object) *group {
	g, ok := s.groups[holder.GetUID()]
	if !ok {
		stored := statusIn(holder)
		g = &group{
			backoffs: stored.Backoffs, joins: outcomesIn(stored.RecentJoins, stored.JoinOutcomes), stored: stored,
			ordered: map[types.UID]time.Time{}, waiting: map[types.NamespacedName]bool{},
		}
		s.groups[holder.GetUID()] = g
	}
	g.used = true
	return g
}

func (s *Groups) releaseProbe(machine types.UID) {
	for _, g := range s.groups {
		if g.probe == machine {
			g.endProbe(machine)
			s.wakeAll(g)
		}
	}
}

func (g *group) endProbe(machine types.UID) {
	if g.probe == machine {
		g.probe, g.probeEnds = "", time.Time{}
	}
}

func (s *Groups) wakeAll(g *group) {
	for key := range g.waiting {
		s.wake(key)
	}
	clear(g.waiting)
}
