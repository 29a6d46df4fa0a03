package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// followDeletions implements OnDelete: an old set keeps the Machines that were not deleted by hand, and the current set creates the rest. A
// smaller size removes first the Machines with the annotation delete-machine, and then those of the oldest sets.
func (w *work) followDeletions() {
	for _, s := range w.old() {
		w.resize(s, min(s.size, int32(len(s.living))), "OnDelete: Machines were deleted by hand")
	}
	w.shrinkMarked(w.sizes()-w.replicas, 0)
	surplus := w.sizes() - w.replicas
	for _, s := range w.old() {
		if n := min(s.size, surplus); n > 0 {
			w.resize(s, s.size-n, fmt.Sprintf("the deployment wants %d", w.replicas))
			surplus -= n
		}
	}
	left := w.sizes() - w.current.size
	w.raise(w.current, max(0, w.replicas-left), fmt.Sprintf("OnDelete: %d old Machines stay", left))
}

// recreate removes all old Machines before it creates new ones. It waits until the objects of the old Machines are gone (MCM-19), and
// until every old set has observed its current size.
func (w *work) recreate() {
	waiting := w.leaving
	for _, s := range w.old() {
		w.resize(s, min(s.size, int32(len(s.living))), "Recreate: replicas of an old template that have no Machine get none")
		w.remove(s, w.limited(s.size), "Recreate: old Machines are removed first", anyMachine)
		waiting = waiting || !s.empty()
	}
	if waiting {
		w.resize(w.current, min(w.current.size, w.replicas), "Recreate: waiting until old Machines are gone")
		return
	}
	w.raise(w.current, w.replicas, fmt.Sprintf("the deployment wants %d", w.replicas))
}

// scalePaused follows the size while the rollout is paused, without replacing Machines. A single active set takes the whole change; several
// active sets share it in proportion to their sizes (MC-24).
func (w *work) scalePaused() {
	switch active := w.active(); len(active) {
	case 0:
		s := w.sets[len(w.sets)-1]
		if w.current != nil {
			s = w.current
		}
		w.raise(s, w.replicas, "paused: the newest set gets the deployment's size")
	case 1:
		w.raise(active[0], w.replicas, "paused: the only active set gets the deployment's size")
	default:
		w.shrinkMarked(w.sizes()-w.allowed(), w.floor())
		// The sets may grow into the surge only when the deployment's size has risen. Otherwise they grow at most to that size.
		change := w.allowed() - w.sizes()
		if change > 0 && !w.told(func(size int32) bool { return size < w.replicas }) {
			change = max(0, w.replicas-w.sizes())
		}
		if w.shrinking(nil) {
			change = min(change, max(0, w.room()))
		}
		if change != 0 {
			w.scaleInProportion(active, change, fmt.Sprintf("paused: its share of %d", w.allowed()))
		}
	}
}

// scaleInProportion distributes a change of the size over the active sets. Each set changes in proportion to its share of the old
// maximum. The largest set takes the rounding remainder.
func (w *work) scaleInProportion(active []*setWork, change int32, reason string) {
	slices.SortStableFunc(active, func(a, b *setWork) int { return cmp.Compare(b.size, a.size) })
	sizes := make([]int32, len(active))
	rest := change
	for i, s := range active {
		part := proportion(s, w.allowed())
		if change > 0 {
			part = min(max(part, 0), rest)
		} else {
			part = max(min(part, 0), rest)
		}
		sizes[i] = s.size + part
		rest -= part
	}
	sizes[0] = max(0, sizes[0]+rest)
	w.holdFloor(active, sizes)
	for i, s := range active {
		w.resize(s, sizes[i], reason)
	}
}

// holdFloor changes the planned sizes so that enough Machines stay available: it raises the sizes of sets that would lose available
// Machines, and in return lowers sets that would only lose Machines that are not available.
func (w *work) holdFloor(active []*setWork, sizes []int32) {
	var left int32
	for i, s := range active {
		left += s.availableAt(sizes[i])
	}
	missing := min(w.floor(), w.available()) - left
	for i, s := range active {
		for missing > 0 && sizes[i] < s.size {
			sizes[i]++
			missing -= s.availableAt(sizes[i]) - s.availableAt(sizes[i]-1)
			takeFree(active, sizes, i)
		}
	}
}

// takeFree lowers the planned size of one set by one, if that set then loses only a Machine that is not available. It does nothing when
// there is no such set. kept is the index of the set that must not be lowered.
func takeFree(active []*setWork, sizes []int32, kept int) {
	for i, s := range active {
		if i != kept && sizes[i] > 0 && s.availableAt(sizes[i]-1) == s.availableAt(sizes[i]) {
			sizes[i]--
			return
		}
	}
}

// proportion returns by how much a set's size changes when the deployment's maximum (its size plus surge) changes to allowed. The former
// maximum is in an annotation of the set. The new size is at most allowed, whatever that annotation contains.
func proportion(s *setWork, allowed int32) int32 {
	former, ok := number(s.set, v1alpha1.AnnotationMaxReplicas)
	if !ok || former <= 0 {
		return 0
	}
	share := math.Round(float64(s.size) * float64(allowed) / float64(former))
	return int32(min(share, float64(allowed))) - s.size
}
