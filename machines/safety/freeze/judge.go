package freeze

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons of the condition Frozen.
const (
	ReasonOvershoot = "OverShootingReplicaCount"
	ReasonWithin    = "WithinReplicaCount"
	ReasonByHand    = "UnfrozenByHand"
	ReasonOff       = "FreezeTurnedOff"
)

// Limits define when a group is frozen and when the freeze ends.
type Limits struct {
	// Up is by how many living Machines a group must exceed its bound (see Group.bound) to be frozen. Down is how many Machines
	// fewer than that the group must have before the freeze ends.
	Up, Down int
	// Period is the interval at which drover checks each group. It is also how long a group is not frozen again after an operator
	// has ended its freeze. 0 means that no group is frozen, and that existing freezes end.
	Period time.Duration
}

// Group is the observed state of a MachineDeployment with all its sets, or of a set without a deployment.
type Group struct {
	// Deployment is the group's deployment. nil means that the group is a set without a deployment, which is then the only
	// element of Sets.
	Deployment *v1alpha1.MachineDeployment
	Sets       []*v1alpha1.MachineSet
	// Living is the number of Machines that the sets control and that are neither being deleted nor listed for removal.
	Living int
	// Former is the largest bound (see Group.bound) that the group had within the last minute. When the bound was lowered, the
	// sets may not have followed it yet.
	Former int
}

// Verdict is the decision about a group, with its reason.
type Verdict struct {
	// LeftAlone reports whether nothing is changed, because the group is paused or being deleted, or its size is not known.
	LeftAlone bool
	Frozen    bool
	// Reason and Message are the reason and the message of the condition.
	Reason, Message string
}

// owner returns the object whose condition stores the freeze.
func (g *Group) owner() client.Object {
	if g.Deployment != nil {
		return g.Deployment
	}
	return g.Sets[0]
}

// objects returns the owner and the sets.
func (g *Group) objects() []client.Object {
	all := []client.Object{g.owner()}
	for _, set := range g.Sets {
		if client.Object(set) != all[0] {
			all = append(all, set)
		}
	}
	return all
}

// bound returns how many living Machines a group may normally have: for a deployment its size plus its surge, for a set without a
// deployment twice its size. ok is false while the size is not known.
func (g *Group) bound() (bound int, ok bool) {
	if g.Deployment == nil {
		return boundOfSet(g.Sets[0])
	}
	return rollout.MostLiving(g.Deployment)
}

func boundOfSet(set *v1alpha1.MachineSet) (int, bool) {
	if n := set.Spec.Replicas; n != nil && *n >= 0 {
		return 2 * int(*n), true
	}
	return 0, false
}

// Judge returns whether a group is frozen. The freeze begins when the number of living Machines reaches the group's bound (see
// Group.bound), or its former larger bound, plus Up. It ends when the number is at least Down below the present bound plus Up. In
// between the state does not change. An operator's annotation ends the freeze for one period.
func Judge(g *Group, l Limits, now time.Time) Verdict {
	bound, known := g.bound()
	owner := g.owner()
	frozen := conditionOf(owner)
	was := frozen != nil && frozen.Status == metav1.ConditionTrue
	high := bound + l.Up
	low := high - l.Down
	switch {
	case leftAlone(owner):
		return Verdict{LeftAlone: true, Frozen: was}
	case l.Period <= 0:
		return Verdict{Reason: ReasonOff, Message: "--machine-safety-overshooting-period is 0: nothing is frozen"}
	case g.asked():
		return Verdict{Reason: ReasonByHand, Message: fmt.Sprintf("unfrozen by an annotation, with %d living Machines; at %d or more the group is frozen again after %s", g.Living, high, l.Period)}
	case !known:
		return Verdict{LeftAlone: true, Frozen: was}
	case g.Living <= low:
		return Verdict{Reason: ReasonWithin, Message: fmt.Sprintf("%d living Machines; with at most %d the group is not frozen", g.Living, low)}
	case was:
		return Verdict{Frozen: true, Reason: frozen.Reason, Message: frozen.Message}
	case g.Living < max(bound, g.Former)+l.Up, setFreeLately(frozen, l, now):
		return Verdict{}
	}
	return Verdict{Frozen: true, Reason: ReasonOvershoot, Message: fmt.Sprintf(
		"the group has %d living Machines and is frozen from %d on: no more are created until at most %d are left. Find out what created the surplus; the annotation %s lifts the freeze once",
		g.Living, high, low, v1alpha1.AnnotationUnfreeze)}
}

// setFreeLately reports whether an operator ended the freeze within the last period.
func setFreeLately(frozen *metav1.Condition, l Limits, now time.Time) bool {
	return frozen != nil && frozen.Reason == ReasonByHand && now.Before(frozen.LastTransitionTime.Add(l.Period))
}

// asked reports whether an annotation requests the end of the freeze, on the deployment or on any set that is neither paused
// nor being deleted.
func (g *Group) asked() bool {
	for _, o := range g.objects() {
		if len(requests(o)) > 0 && !leftAlone(o) {
			return true
		}
	}
	return false
}

// leftAlone reports whether an object must not be written, because it is paused or being deleted.
func leftAlone(o client.Object) bool {
	return !o.GetDeletionTimestamp().IsZero() || v1alpha1.Paused(o.GetAnnotations())
}

// requests returns the annotations of an object that request the end of the freeze.
func requests(o client.Object) (keys []string) {
	for _, key := range []string{v1alpha1.AnnotationUnfreeze, v1alpha1.AnnotationUnfreezeMCM} {
		if _, ok := o.GetAnnotations()[key]; ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// conditionOf returns the condition Frozen of a deployment or set; nil when there is no such condition.
func conditionOf(o client.Object) *metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionFrozen)
	case *v1alpha1.MachineSet:
		return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionFrozen)
	}
	return nil
}

// living returns the number of Machines that are neither being deleted nor listed for removal.
func living(d *v1alpha1.MachineDeployment, sets []*v1alpha1.MachineSet, machines []metav1.Object) (n int) {
	listed := map[types.UID]bool{}
	add := func(removals []v1alpha1.Removal) {
		for _, r := range removals {
			listed[r.UID] = true
		}
	}
	if d != nil {
		add(d.Spec.Removals)
	}
	for _, set := range sets {
		add(set.Spec.Removals)
		add(set.Spec.RolloutRemovals)
	}
	for _, m := range machines {
		if m.GetDeletionTimestamp().IsZero() && !listed[m.GetUID()] {
			n++
		}
	}
	return n
}
