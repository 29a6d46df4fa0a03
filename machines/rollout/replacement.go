package rollout

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// replacedEarly is how long before a Machine's deletion the one that takes its place may have been made: as long as a
// server takes to become an available node. A rollout with surge makes it first.
const replacedEarly = 30 * time.Minute

// replacementNodes names the Nodes that are there for pods which have not come yet: for each Machine that still drains
// and was not taken away by name, that of the living Machine made nearest to its deletion. Such a Node looks as if nobody
// needed it. wait is until another drain lasts so long that it counts; 0: none does.
func (w *work) replacementNodes() (nodes []string, wait time.Duration) {
	draining, wait := w.drainingMachines()
	if len(draining) == 0 {
		return nil, wait
	}
	free := w.livingNodes()
	slices.SortFunc(draining, func(a, b *v1alpha1.Machine) int {
		return cmp.Or(a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	early := replacedEarly + seconds(minReadySeconds(w.d))
	for _, gone := range draining {
		if i := nearest(free, gone, early); i >= 0 {
			nodes = append(nodes, free[i].Status.NodeRef.Name)
			free = slices.Delete(free, i, i+1)
		}
	}
	return nodes, wait
}

// nearest is the one of the Machines, sorted by creation, that was made nearest to a deletion; -1 when none may be the
// replacement. One that was there before is so in another set only: a set makes the next when one is gone, a rollout with
// surge before.
func nearest(free []*v1alpha1.Machine, gone *v1alpha1.Machine, early time.Duration) int {
	at := gone.DeletionTimestamp.Time
	later, _ := slices.BinarySearchFunc(free, at, func(m *v1alpha1.Machine, t time.Time) int { return m.CreationTimestamp.Compare(t) })
	best := -1
	// Times are whole seconds: one that was made with the Machine that goes was not made for it.
	after := later
	for after < len(free) && !free[after].CreationTimestamp.After(gone.CreationTimestamp.Time) {
		after++
	}
	if after < len(free) {
		best = after
	}
	for before := later - 1; before >= 0; before-- {
		m := free[before]
		ahead := at.Sub(m.CreationTimestamp.Time)
		if ahead > early || !m.CreationTimestamp.After(gone.CreationTimestamp.Time) {
			break
		}
		if setUID(m) == setUID(gone) {
			continue
		}
		if best < 0 || ahead <= free[best].CreationTimestamp.Sub(at) {
			best = before
		}
		break
	}
	return best
}

func setUID(m *v1alpha1.Machine) types.UID {
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		return owner.UID
	}
	return ""
}

// shortDrain is how long a Machine must have been leaving before the Node that replaces it is marked. Most are gone by then,
// and no autoscaler takes a new Node for unneeded so soon.
const shortDrain = 30 * time.Second

// drainingMachines are leaving for a while, with a node and a server, and are to be replaced: nobody took them away by name.
// wait is until the next one has been leaving so long; 0: there is none.
func (w *work) drainingMachines() (draining []*v1alpha1.Machine, wait time.Duration) {
	for _, s := range w.sets {
		for _, m := range s.machines {
			named := func(r v1alpha1.Removal) bool { return r.UID == m.UID }
			if m.DeletionTimestamp.IsZero() || m.Status.NodeRef == nil || !(MachineFacts{Machine: m}).HasServer() ||
				slices.ContainsFunc(s.removals, named) || slices.ContainsFunc(w.listed, named) {
				continue
			}
			if left := shortDrain - w.now.Sub(m.DeletionTimestamp.Time); left > 0 {
				wait = soonest(wait, left)
				continue
			}
			draining = append(draining, m)
		}
	}
	return draining, wait
}

// livingNodes are the living Machines that have a node, the oldest first.
func (w *work) livingNodes() (living []*v1alpha1.Machine) {
	for _, s := range w.sets {
		for _, f := range s.living {
			if f.Machine.Status.NodeRef != nil {
				living = append(living, f.Machine)
			}
		}
	}
	slices.SortFunc(living, func(a, b *v1alpha1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return living
}
