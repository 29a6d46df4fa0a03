package adoption

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/machines/set"
)

// OfDeployment predicts what drover would do with a deployment and with the sizes of its sets.
func OfDeployment(s rollout.Snapshot) Entry {
	d := s.Deployment
	e := Entry{Kind: "MachineDeployment", Namespace: d.Namespace, Name: d.Name, Outcome: Kept}
	switch {
	case d.DeletionTimestamp != nil:
		e.Outcome, e.Why = Deleted, "it is being deleted already, and its Machines with it"
		return e
	case v1alpha1.Paused(d.Annotations):
		e.Outcome, e.Why = Left, "it is paused"
		return e
	}
	plan, err := rollout.Compute(s)
	if err != nil {
		e.Outcome, e.Why = Refused, err.Error()
		return e
	}
	if plan.Create != nil {
		e.Outcome, e.Why = ofNewSet(s, plan.Create)
		return e
	}
	e.Outcome, e.Why = ofSizes(s, plan)
	return e
}

// ofNewSet returns the outcome for a deployment, with an explanation, when the plan creates a set because no set with
// Machines has the template of the deployment.
func ofNewSet(s rollout.Snapshot, made *v1alpha1.MachineSet) (Outcome, string) {
	newest := newestWithMachines(s.Sets)
	if newest == nil {
		return Made, "it has no Machines: drover creates its first set"
	}
	differences := rollout.TemplateDifferences(&newest.Spec.Template, &made.Spec.Template)
	return Rolled, fmt.Sprintf("its template differs from that of set %s: %s", newest.Name, strings.Join(differences, "; "))
}

// newestWithMachines returns the set with the highest revision among those that have Machines; nil when no set has Machines.
func newestWithMachines(sets []rollout.SetState) *v1alpha1.MachineSet {
	var newest *v1alpha1.MachineSet
	highest := int64(-1)
	for _, s := range sets {
		// A set without a readable revision counts as the oldest.
		revision, _ := strconv.ParseInt(s.Set.Annotations[v1alpha1.AnnotationRevision], 10, 64)
		if len(s.Machines) > 0 && revision > highest {
			newest, highest = s.Set, revision
		}
	}
	return newest
}

// ofSizes returns the outcome for a deployment, with an explanation, when the plan creates no set.
func ofSizes(s rollout.Snapshot, plan rollout.Plan) (Outcome, string) {
	var grown, shrunk []string
	for _, c := range plan.Changes {
		before := int32(0)
		if c.Set.Spec.Replicas != nil {
			before = *c.Set.Spec.Replicas
		}
		change := fmt.Sprintf("the size of set %s changes from %d to %d", c.Set.Name, before, c.Replicas)
		switch {
		case c.Replicas > before:
			grown = append(grown, change)
		case c.Replicas < before, len(c.RolloutRemovals) > 0:
			shrunk = append(shrunk, change)
		}
	}
	all := strings.Join(append(grown, shrunk...), "; ")
	rolling := len(plan.Rolled) > 0 || withMachines(s.Sets) > 1
	switch {
	case all == "" && rolling && plan.Replacing > 0:
		return Rolled, "a rollout is under way and continues"
	case all == "":
		return Kept, ""
	case rolling:
		return Rolled, "a rollout is under way and continues: " + all
	case len(shrunk) > 0:
		return Deleted, all
	}
	return Made, all
}

// withMachines returns how many of the sets have Machines.
func withMachines(sets []rollout.SetState) (n int) {
	for _, s := range sets {
		if len(s.Machines) > 0 {
			n++
		}
	}
	return n
}

// OfSet predicts what drover would do with a set and the Machines that the set controls.
func OfSet(s *v1alpha1.MachineSet, machines []*v1alpha1.Machine, now time.Time) Entry {
	e := Entry{Kind: "MachineSet", Namespace: s.Namespace, Name: s.Name, Outcome: Kept}
	create, remove, err := set.Foresee(s, machines, now)
	switch {
	case err != nil:
		e.Outcome, e.Why = Refused, err.Error()
	case s.DeletionTimestamp != nil:
		e.Outcome, e.Why = Deleted, "it is being deleted already, and its Machines with it"
	case v1alpha1.Paused(s.Annotations):
		e.Outcome, e.Why = Left, "it is paused"
	case len(remove) > 0:
		e.Outcome, e.Why = Deleted, fmt.Sprintf("it has %d surplus Machines, which are deleted: %s", len(remove), names(remove))
	case create > 0:
		e.Outcome, e.Why = Made, fmt.Sprintf("it lacks %d Machines", create)
	}
	return e
}

// mostNamed limits how many Machines a message names.
const mostNamed = 5

// names lists the names of Machines in a message.
func names(machines []*v1alpha1.Machine) string {
	var all []string
	for _, m := range machines[:min(len(machines), mostNamed)] {
		all = append(all, m.Name)
	}
	if more := len(machines) - mostNamed; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
