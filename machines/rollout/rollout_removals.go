package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// recordValue is the value of AnnotationRolloutRecord on sets whose spec.rolloutRemovals names all Machines that a rollout removed.
const recordValue = "true"

// remove lowers an old set by up to n Machines for the rollout. It first removes replicas that have no Machine yet. Then it names Machines
// in spec.rolloutRemovals, in the order of deletion. It names only Machines for which eligible returns true, and none that the set deletes
// anyway because it has too many. It returns by how much the size was lowered.
//
// The entries record which Machines this rollout removed. A leaving Machine counts towards replicas plus surge only if it has an entry.
func (w *work) remove(s *setWork, n int32, reason string, eligible func(MachineFacts) bool) int32 {
	if n <= 0 {
		return 0
	}
	dropped := min(n, s.missing())
	named := map[*v1alpha1.Machine]bool{}
	most := min(n-dropped, v1alpha1.MaxRemovals-int32(len(s.rolloutRemovals)))
	for _, f := range s.staying() {
		if int32(len(named)) < most && eligible(f) {
			named[f.Machine] = true
			s.nameRolloutRemoval(f.Machine, w.now)
		}
	}
	living := make([]MachineFacts, 0, len(s.living))
	for _, f := range s.living {
		if !named[f.Machine] {
			living = append(living, f)
		}
	}
	s.living = living
	s.sortLiving()
	lowered := dropped + int32(len(named))
	w.resize(s, s.size-lowered, reason)
	return lowered
}

// missing returns how many replicas have no Machine. The set's status must report this for the set's current size, because the set may
// have created Machines that the informer cache does not show yet.
func (s *setWork) missing() int32 {
	if s.set.Status.ObservedGeneration < s.set.Generation {
		return 0
	}
	return max(0, s.size-max(int32(len(s.living)), s.set.Status.Replicas))
}

func anyMachine(MachineFacts) bool { return true }

func unavailable(f MachineFacts) bool { return !f.Available }

// nameRolloutRemoval adds a Machine to spec.rolloutRemovals. The Machine still counts towards replicas plus surge, because it may get a
// server before the set deletes it.
func (s *setWork) nameRolloutRemoval(m *v1alpha1.Machine, now time.Time) {
	s.rolloutRemovals = append(s.rolloutRemovals[:len(s.rolloutRemovals):len(s.rolloutRemovals)], v1alpha1.Removal{
		Name: m.Name, UID: m.UID, Time: metav1.NewTime(now),
	})
	s.recordChanged = true
	s.removing++
}

// beginRecords prepares old sets whose spec.rolloutRemovals is not kept yet, because machine-controller or an older version of drover
// created them. It is not known which of their leaving Machines a rollout removed. Therefore beginRecords adds all leaving Machines, except
// those in a list of removals. In this way the number of Machines never exceeds replicas plus surge, and a larger size waits at most for
// the drains that run now.
func (w *work) beginRecords() {
	if strategyOf(w.d) == v1alpha1.OnDelete {
		return // with OnDelete, only an operator deletes Machines
	}
	byName := uidsOf(w.listed)
	for _, s := range w.old() {
		if s.set.Annotations[v1alpha1.AnnotationRolloutRecord] == recordValue || s.before == 0 && len(s.machines) == 0 {
			continue
		}
		s.annotations[v1alpha1.AnnotationRolloutRecord] = recordValue
		own := uidsOf(s.removals)
		for _, m := range s.machines {
			leaving := !m.DeletionTimestamp.IsZero() && hasServer(m)
			if leaving && !own[m.UID] && !byName[m.UID] && len(s.rolloutRemovals) < v1alpha1.MaxRemovals {
				s.nameRolloutRemoval(m, w.now)
			}
		}
	}
}

// PresentRemovals returns the entries whose Machine still exists.
func PresentRemovals(removals []v1alpha1.Removal, machines []*v1alpha1.Machine) (present []v1alpha1.Removal) {
	if len(removals) == 0 {
		return nil
	}
	exists := uidsIn(machines)
	for _, r := range removals {
		if exists[r.UID] {
			present = append(present, r)
		}
	}
	return present
}

func uidsIn(machines []*v1alpha1.Machine) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(machines))
	for _, m := range machines {
		uids[m.UID] = true
	}
	return uids
}
