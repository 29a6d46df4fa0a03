package set

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// maxPerReconcile limits how many Machines one reconcile creates or deletes. The next reconcile continues.
const maxPerReconcile = 1000

// A set that has firstMachines Machines makes no more while none of its newest ones has a server; newestMachines is how many it looks at.
// Each Machine needs memory in drover and in the API server, and a size can be 100 000.
const firstMachines, newestMachines = 1000, 100

// observed holds what was observed of a set.
type observed struct {
	set *v1alpha1.MachineSet
	// machines holds the Machines that the set controls, including those that are being deleted. deleted holds the Machines that this
	// process has deleted but that the cache still shows without a deletion. unseen counts the Machines that this process has created but
	// that the cache does not show yet.
	machines []rollout.MachineFacts
	deleted  map[types.UID]bool
	unseen   int
	// availableIn is the time until the next Ready Machine becomes available; 0 means that no Ready Machine will become available.
	availableIn time.Duration
	// verifyIn is how long this process waits for the cache to show its creates and deletes before it reads the Machines from the API
	// server; 0 means that the cache shows them all.
	verifyIn time.Duration
}

// decision holds what to do with a set.
type decision struct {
	// wanted is the size to keep. restore is true when it must be written to spec.replicas.
	wanted  int
	restore bool
	remove  []*v1alpha1.Machine
	// surplus is how many of the Machines in remove the set chose on its own, because it has too many.
	surplus int
	create  int
	// waits describes why fewer Machines are created than are missing; nil when there is no such reason.
	waits error
	// held describes what keeps the set from following its spec, without being a fault; empty when nothing does.
	held string
	// frozen describes why fewer Machines are created than are missing, because the group has far too many; empty when it has not. lifted is the
	// same text when an annotation lets the set create them nevertheless.
	frozen, lifted string
}

// unconfirmed holds the creates and deletes of a set's Machines by this process that the cache does not show yet.
type unconfirmed struct {
	// created counts the created Machines. deleted holds the deleted Machines.
	created int
	deleted map[types.UID]bool
}

// observe returns what the cache shows of a set, combined with open: the creates and deletes that the cache does not show yet. removals are
// the removals in the set's spec.
func observe(set *v1alpha1.MachineSet, machines []*v1alpha1.Machine, removals []v1alpha1.Removal, open unconfirmed, now time.Time) observed {
	s := observed{set: set, unseen: open.created, deleted: open.deleted}
	listed := map[types.UID]bool{}
	for _, list := range [][]v1alpha1.Removal{removals, set.Spec.RolloutRemovals} {
		for _, removal := range list {
			listed[removal.UID] = true
		}
	}
	for _, m := range machines {
		f := rollout.Facts(m, set.Spec.MinReadySeconds, now)
		f.Listed = listed[m.UID] || s.deleted[m.UID]
		s.machines = append(s.machines, f)
		if f.Living() && f.NodeReady && !f.Available {
			s.availableIn = rollout.Soonest(s.availableIn, rollout.AvailableAfter(m, set.Spec.MinReadySeconds, now))
		}
	}
	return s
}

// decide returns which Machines to delete and how many to create. Machines that are named for removal are deleted whatever the size is.
// Only living Machines count towards the size. A set of a deployment follows only what the deployment has written: it keeps its Machines when
// another client writes a size, and creates none of a template that another client has written (F-162).
//
// While the cache does not show all created Machines, decide deletes no Machine to reach a smaller size: the created Machines have no Node
// yet and must be deleted first, but decide would choose a Machine with a Node instead.
func decide(s observed) decision {
	var d decision
	var living []rollout.MachineFacts
	for _, f := range s.machines {
		switch {
		case f.Living():
			living = append(living, f)
		case f.Machine.DeletionTimestamp.IsZero() && !s.deleted[f.Machine.UID]:
			d.remove = append(d.remove, f.Machine)
		}
	}
	count := len(living) + s.unseen
	d.wanted, d.restore = wanted(s.set, count)
	undecided, known := rollout.UndecidedSize(s.set)
	if known != nil {
		d.wanted = int(*known)
	}
	switch surplus := count - d.wanted; {
	case undecided != "":
		d.held = undecided
	case surplus > 0 && s.unseen == 0:
		order := rollout.DeletionOrder(living, s.set.Spec.DeletePolicy, nil)
		d.surplus = min(surplus, len(order))
		d.remove = append(d.remove, order[:d.surplus]...)
	case surplus < 0:
		if d.held = cmp.Or(creationStopped(s.set), rollout.UndecidedTemplate(s.set)); d.held == "" {
			d.create, d.waits = afterServers(min(-surplus, maxPerReconcile), living, s.unseen)
		}
	}
	if err := v1alpha1.CheckDocument(s.set.Spec.Template.Spec.Document()); err != nil && d.create > 0 {
		d.create, d.waits = 0, fmt.Errorf("creating no Machines: spec.template.spec.providerSpec.value: %w", err)
	}
	d.remove = d.remove[:min(len(d.remove), maxPerReconcile)]
	return d
}

// afterServers returns how many of the Machines that a set lacks may be created before one of its newest Machines has a server. unseen is
// how many Machines exist in addition to living. The error describes why the result is lower.
func afterServers(create int, living []rollout.MachineFacts, unseen int) (int, error) {
	left := max(0, firstMachines-len(living)-unseen)
	if create <= left || newestHaveServer(living, newestMachines-unseen) {
		return create, nil
	}
	return left, fmt.Errorf("creating only %d of at least %d Machines: the set has %d, and none of the newest %d has a server; it continues when one of them has a server: see the errors of these Machines, or set a smaller size",
		left, create, len(living)+unseen, newestMachines)
}

// newestHaveServer reports whether one of the newest living Machines has a server.
func newestHaveServer(living []rollout.MachineFacts, newest int) bool {
	byAge := slices.SortedFunc(slices.Values(living), func(a, b rollout.MachineFacts) int {
		return b.Machine.CreationTimestamp.Compare(a.Machine.CreationTimestamp.Time)
	})
	return slices.ContainsFunc(byAge[:max(0, min(newest, len(byAge)))], rollout.MachineFacts.HasServer)
}

// creationStopped returns why a set must not create Machines although some are missing: it is an old set of an OnDelete deployment. It returns
// an empty string when the set may create Machines.
func creationStopped(set *v1alpha1.MachineSet) string {
	if set.Annotations[v1alpha1.AnnotationNoCreate] == "true" {
		return "no Machine is created, because this is an old set of a deployment with the strategy OnDelete; no action is needed"
	}
	return ""
}

// wanted returns the size to keep. When no client sets spec.replicas, the size is the number of living Machines, or 1 for a new set.
func wanted(set *v1alpha1.MachineSet, living int) (size int, restore bool) {
	switch {
	case set.Spec.Replicas != nil:
		return int(*set.Spec.Replicas), false
	case set.Status.ObservedGeneration == 0:
		return 1, true
	}
	return living, true
}

// crowd holds the numbers of Machines that decide whether a set that lacks Machines is frozen.
type crowd struct {
	// living counts the living Machines of all sets of the set's deployment. most is the size of the deployment plus its surge, at the time
	// when it wrote the set's size; 0 for a set without a deployment.
	living, most int
	// own counts the living Machines of the set and those that it has lost.
	own int
}

// freeze lowers the number of Machines that a set creates, so that its deployment, or the set with the Machines that it has lost, does not get
// far more Machines than its size allows (MCM-35, MCM-70). More would mean that something is wrong: for example, another program makes
// Machines, or removes the labels of every new one. up is how many Machines too many there may be. Machines that are being deleted do not
// count, because a set must be able to grow while the drains of a scale-down last (MCM-73).
func (d *decision) freeze(c crowd, up int) {
	limit, count := 2*d.wanted+up, c.own
	what := "the set has %d Machines, and makes no more from %d on (2 × its size + --safety-up). Among them are Machines that were made for it and do not belong to it any more, because their labels do not match or they have another owner; each of them counts until it is deleted, or has the labels of the set's template and no other owner"
	if group := c.most + up; c.most > 0 && group-c.living < limit-count {
		limit, count = group, c.living
		what = "the sets of the deployment have %d living Machines, and make no more from %d on (size + surge + --safety-up)"
	}
	if d.create <= limit-count {
		return
	}
	if d.create = max(0, limit-count); d.create == 0 {
		d.held = "the set is frozen, so no Machine is created: see the condition " + v1alpha1.ConditionFrozen
	}
	d.frozen = fmt.Sprintf(what+". Find out what made them; the annotation %s lets the set once make the Machines that it lacks", count, limit, v1alpha1.AnnotationUnfreeze)
}
