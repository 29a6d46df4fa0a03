package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// replacedEarly is how long before a Machine's deletion the one that takes its place may have been made: as long as a
// server takes to become an available node. A rollout with surge makes it first.
const replacedEarly = 30 * time.Minute

// replacementNodes names the Nodes that are there for pods which have not come yet: for each Machine that still drains
// and was not taken away by name, that of the living Machine made nearest to its deletion. Such a Node looks as if nobody
// needed it.
func (w *work) replacementNodes() []string {
	draining := w.drainingMachines()
	if len(draining) == 0 {
		return nil
	}
	fresh := w.livingNodes()
	made := func(m *v1alpha1.Machine) time.Time { return m.CreationTimestamp.Time }
	slices.SortFunc(fresh, func(a, b *v1alpha1.Machine) int {
		return cmp.Or(made(a).Compare(made(b)), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(draining, func(a, b *v1alpha1.Machine) int {
		return cmp.Or(a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	early := replacedEarly + seconds(minReadySeconds(w.d))
	taken := make([]bool, len(fresh))
	var nodes []string
	for _, gone := range draining {
		at := gone.DeletionTimestamp.Time
		after, _ := slices.BinarySearchFunc(fresh, at, func(m *v1alpha1.Machine, t time.Time) int { return made(m).Compare(t) })
		before := after - 1
		for after < len(fresh) && taken[after] {
			after++
		}
		for before >= 0 && taken[before] {
			before--
		}
		fits := before >= 0 && at.Sub(made(fresh[before])) <= early && made(fresh[before]).After(made(gone))
		switch {
		case fits && (after == len(fresh) || at.Sub(made(fresh[before])) <= made(fresh[after]).Sub(at)):
			after = before
		case after == len(fresh):
			continue
		}
		taken[after] = true
		nodes = append(nodes, fresh[after].Status.NodeRef.Name)
	}
	return nodes
}

// drainingMachines are leaving, with a node and a server, and are to be replaced: nobody took them away by name.
func (w *work) drainingMachines() (draining []*v1alpha1.Machine) {
	for _, s := range w.sets {
		for _, m := range s.machines {
			named := func(r v1alpha1.Removal) bool { return r.UID == m.UID }
			if m.DeletionTimestamp.IsZero() || m.Status.NodeRef == nil || !(MachineFacts{Machine: m}).HasServer() ||
				slices.ContainsFunc(s.removals, named) || slices.ContainsFunc(w.d.Spec.Removals, named) {
				continue
			}
			draining = append(draining, m)
		}
	}
	return draining
}

// livingNodes are the living Machines that have a node.
func (w *work) livingNodes() (living []*v1alpha1.Machine) {
	for _, s := range w.sets {
		for _, f := range s.living {
			if f.Machine.Status.NodeRef != nil {
				living = append(living, f.Machine)
			}
		}
	}
	return living
}
