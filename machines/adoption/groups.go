package adoption

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
	"github.com/drover-project/drover/machines/rollout"
	"github.com/drover-project/drover/machines/set"
)

// OfDeployment predicts what drover would do with a deployment and with the sizes of its sets.
func OfDeployment(s rollout.Snapshot) Entry {
	d := s.Deployment
	e := Entry{Kind: "MachineDeployment", Namespace: d.Namespace, Name: d.Name, Outcome: Kept}
	e.Warnings = slices.Concat(d.Spec.WithoutEffect(), rollout.ReadOtherwise(d))
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
	newest := NewestSet(withMachines(s.Sets))
	if newest == nil {
		return Made, "it has no Machines: drover creates its first set"
	}
	differences := rollout.TemplateDifferences(&newest.Spec.Template, &made.Spec.Template)
	return Rolled, fmt.Sprintf("its template differs from that of set %s: %s", newest.Name, strings.Join(differences, "; "))
}

// NewestSet returns the set with the highest revision; nil when there is no set.
func NewestSet(sets []rollout.SetState) *v1alpha1.MachineSet {
	var newest *v1alpha1.MachineSet
	highest := int64(-1)
	for _, s := range sets {
		// A set without a readable revision counts as the oldest.
		revision, _ := strconv.ParseInt(s.Set.Annotations[v1alpha1.AnnotationRevision], 10, 64)
		if revision > highest {
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
	rolling := len(plan.Rolled) > 0 || len(withMachines(s.Sets)) > 1
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

// withMachines returns those of the sets that have Machines.
func withMachines(sets []rollout.SetState) []rollout.SetState {
	return slices.DeleteFunc(slices.Clone(sets), func(s rollout.SetState) bool { return len(s.Machines) == 0 })
}

// OfSet predicts what drover would do with a set and the Machines that the set controls.
func OfSet(s *v1alpha1.MachineSet, machines []*v1alpha1.Machine, now time.Time) Entry {
	e := Entry{Kind: "MachineSet", Namespace: s.Namespace, Name: s.Name, Outcome: Kept}
	if metav1.GetControllerOfNoCopy(s) == nil {
		e.Warnings = s.Spec.WithoutEffect()
	}
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

// NextMachine returns the next Machine that drover would create for a set with the given template. The Machine does not exist.
func NextMachine(s *v1alpha1.MachineSet, template *v1alpha1.MachineTemplateSpec) *v1alpha1.Machine {
	s = s.DeepCopy()
	s.Spec.Template = *template
	m := set.ForeseeMachine(s)
	m.UID = "next-of-" + s.UID
	return m
}

// AddNext adds to the entry of a deployment or set what would happen to its next Machine: f is the forecast for that Machine, and names
// is the error with which the cloud would refuse the names in its provider spec. A group whose next Machine would get no server is
// Refused. AddNext returns false when the cloud did not answer.
func (e *Entry) AddNext(f machine.Forecast, names error) (answered bool) {
	e.Warnings = append(e.Warnings, f.Warnings...)
	var why string
	switch {
	case f.Step == lifecycle.Fail:
		why = f.Detail
	case fault.Is(names, fault.Invalid), fault.Is(names, fault.NotFound), fault.Is(names, fault.Auth):
		why = fault.Of(names).Message
	default:
		// In a dry run the client refuses to create the default security group or the shared server group. That refusal does
		// not come from the cloud.
		return names == nil || fault.Of(names).Code == fault.CodeUnsettled
	}
	why = "a new Machine would get no server: " + why
	if e.Outcome == Rolled || e.Outcome == Deleted {
		e.Why += "; " + why
		return true
	}
	e.Outcome, e.Why = Refused, why
	return true
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
