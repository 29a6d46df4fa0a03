package rollout

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// replacedEarly is the longest time between the creation of a replacement and the deletion of the Machine that it replaces, when a rollout
// with surge creates the replacement first. It is the time that a server needs to become an available node.
const replacedEarly = 30 * time.Minute

// replacementNodes returns the names of the Nodes to which the pods of draining Machines are expected to move. drover protects these Nodes,
// because until then they look unneeded to the autoscaler. For each draining Machine (see drainingMachines), this is the Node of the living
// Machine that was created nearest in time to the deletion. wait is the time until another Machine counts as draining; 0 means that there
// is none.
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

// nearest returns the index in free of the Machine that probably replaces gone, a Machine that is being deleted: the Machine that was
// created nearest in time to the deletion. It returns -1 when there is none. free is sorted by creation time. A Machine that was created
// before the deletion can be the replacement only if it is in another set, and was created no longer than early before the deletion: a set
// creates the replacement after the deletion, and only a rollout with surge creates it before.
func nearest(free []*v1alpha1.Machine, gone *v1alpha1.Machine, early time.Duration) int {
	at := gone.DeletionTimestamp.Time
	later, _ := slices.BinarySearchFunc(free, at, func(m *v1alpha1.Machine, t time.Time) int { return m.CreationTimestamp.Compare(t) })
	best := -1
	// A Machine that was created together with the deleted one is not its replacement. Times are in whole seconds, so both may have the
	// same time.
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

// shortDrain is how long the deletion of a Machine must have lasted before drover protects the Node of its replacement from the autoscaler.
// By then most deleted Machines are gone, and no autoscaler removes a new Node so soon.
const shortDrain = 30 * time.Second

// drainingMachines returns the Machines with a Node and a server whose deletion has lasted for at least shortDrain, and that are to be
// replaced, because they were not named for removal. wait is the time until the deletion of another such Machine has lasted for that long;
// 0 means that there is none.
func (w *work) drainingMachines() (draining []*v1alpha1.Machine, wait time.Duration) {
	for _, s := range w.sets {
		for _, m := range s.machines {
			named := func(r v1alpha1.Removal) bool { return r.UID == m.UID }
			if m.DeletionTimestamp.IsZero() || m.Status.NodeRef == nil || !hasServer(m) ||
				slices.ContainsFunc(s.removals, named) || slices.ContainsFunc(w.listed, named) {
				continue
			}
			if left := shortDrain - w.now.Sub(m.DeletionTimestamp.Time); left > 0 {
				wait = Soonest(wait, left)
				continue
			}
			draining = append(draining, m)
		}
	}
	return draining, wait
}

// livingNodes returns the living Machines that have a Node, the oldest first.
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
