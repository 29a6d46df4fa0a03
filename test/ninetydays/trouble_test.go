package ninetydays

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/cloud"
	health "github.com/drover-project/drover/machines/health/verdict"
	orphans "github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// kind is a fault of the input from which the health controller and the orphan collector decide.
type kind int

const (
	nothing kind = iota
	// noMachines means that caches and lists of Machines are empty, and someMachines that some Machines are missing
	// from them.
	noMachines
	someMachines
	// interrupted means that the watch of Machines was interrupted, so that drover's cache lacks some Machines.
	interrupted
	// noNodes means that the cache of Nodes is empty, and someNodes that some Nodes are missing from it.
	noNodes
	someNodes
	// stopped means that the watches deliver nothing.
	stopped
	// failing means that Machines cannot be listed. old means that the list of Machines is an hour old, as after a
	// restore from a backup.
	failing
	old
	// shuffled means that all lists are in a random order.
	shuffled
	// unknownProject means that the cloud's lists are not complete, and lateProject that the cloud's lists are old.
	unknownProject
	lateProject
	kinds
)

// trouble is the current fault in the input of the decisions.
type trouble struct {
	w     *world
	kind  kind
	until time.Time
	// hidden holds the Machines that are missing from lists. The next three fields hold the true state at the beginning of the
	// fault.
	hidden   map[types.UID]bool
	machines []health.Machine
	nodes    []orphans.Node
	project  []resource
	// past holds the lists of Machines of the last rounds.
	past [][]orphans.Machine
}

// begin starts a random fault, unless another fault is present.
func (t *trouble) begin() {
	if t.now() != nothing {
		return
	}
	w := t.w
	w.counts.troubles++
	t.kind, t.until = 1+kind(w.random.IntN(int(kinds-1))), w.now.Add(w.between(time.Minute, time.Hour))
	t.hidden = map[types.UID]bool{}
	share := 1 + w.random.IntN(100)
	for i := range w.api.machines.rows {
		if w.random.IntN(100) < share {
			t.hidden[w.api.machines.rows[i].UID] = true
		}
	}
	t.machines, t.nodes = slices.Clone(w.api.machines.rows), slices.Clone(w.api.nodes.rows)
	w.at(t.until.Add(time.Second), w.changed)
	t.project = slices.Clone(w.project.rows)
}

// now returns the current fault.
func (t *trouble) now() kind {
	if t.w.now.After(t.until) {
		t.kind = nothing
	}
	return t.kind
}

// healthMachines returns the Machines and their Nodes as the health controller sees them.
func (t *trouble) healthMachines() []health.Machine {
	rows := t.w.api.machines.rows
	switch t.now() {
	case noMachines:
		return nil
	case someMachines, interrupted:
		return slices.DeleteFunc(slices.Clone(rows), func(m health.Machine) bool { return t.hidden[m.UID] })
	case noNodes, someNodes:
		return t.withoutNodes(slices.Clone(rows))
	case stopped:
		return slices.Clone(t.machines)
	case shuffled:
		return shuffle(t.w, rows)
	}
	return rows
}

func (t *trouble) withoutNodes(rows []health.Machine) []health.Machine {
	for i := range rows {
		if t.kind == noNodes || t.hidden[rows[i].UID] {
			rows[i].Node = nil
		}
	}
	return rows
}

// shuffle returns a copy of a list in another order.
func shuffle[T any](w *world, rows []T) []T {
	rows = slices.Clone(rows)
	w.random.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	return rows
}

// snapshot returns the input of the orphan collector.
func (t *trouble) snapshot() *orphans.Snapshot {
	w := t.w
	s := &orphans.Snapshot{
		Now: w.now, Projects: t.projects(), Nodes: t.listNodes(), Machines: w.api.listed.rows, Ends: w.api.ends,
	}
	switch t.now() {
	case noMachines:
		s.Machines = nil
	case someMachines, interrupted:
		s.Machines = slices.DeleteFunc(slices.Clone(s.Machines), func(m orphans.Machine) bool { return t.hidden[m.UID] })
	case failing:
		s.Stale = "timeout"
	case old:
		if len(t.past) > 0 {
			s.Machines = t.past[0]
		}
	case shuffled:
		s.Machines = shuffle(w, s.Machines)
	}
	t.keep()
	return s
}

// keep records the current list of Machines, and drops lists older than an hour.
func (t *trouble) keep() {
	t.past = append(t.past, slices.Clone(t.w.api.listed.rows))
	if len(t.past) > int(time.Hour/orphanPeriod) {
		t.past = t.past[1:]
	}
}

func (t *trouble) projects() []cloud.Project {
	p := cloud.Project{Name: "p", Place: "p", Resources: t.w.project.rows}
	switch t.now() {
	case unknownProject:
		p.Unknown, p.Resources = "the last list failed", p.Resources[:t.w.random.IntN(len(p.Resources))]
	case lateProject:
		p.Resources = t.project
	case shuffled:
		p.Resources = shuffle(t.w, p.Resources)
	}
	return []cloud.Project{p}
}

func (t *trouble) listNodes() []orphans.Node {
	rows := t.w.api.nodes.rows
	switch t.now() {
	case noNodes:
		return nil
	case someNodes:
		return slices.DeleteFunc(slices.Clone(rows), func(n orphans.Node) bool { return t.hidden[n.OwnedBy] })
	case stopped:
		return t.nodes
	case shuffled:
		return shuffle(t.w, rows)
	}
	return rows
}
