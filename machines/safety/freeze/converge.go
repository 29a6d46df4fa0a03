package freeze

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// change is a write of one object.
type change struct {
	object client.Object
	// condition is the condition Frozen to write. nil means that the condition does not change.
	condition *metav1.Condition
	// label reports whether the label freeze is added (true) or removed (false). nil means that the label does not change.
	label *bool
	// remove lists the annotations to remove in the same write as the label.
	remove []string
}

// converge returns the writes that bring all objects of a group in line with a verdict. The owner is written first, because a
// new leader continues from the owner's condition. Objects that are paused or being deleted are left out.
func converge(g *Group, v Verdict, now time.Time) (changes []change) {
	if v.LeftAlone {
		return nil
	}
	for _, o := range g.objects() {
		if leftAlone(o) {
			continue
		}
		c := change{object: o, remove: requests(o)}
		if has := conditionOf(o); isTrue(has) != v.Frozen {
			c.condition = newCondition(o, v, now)
		}
		if labelled := o.GetLabels()[v1alpha1.LabelFreeze] == v1alpha1.Frozen; labelled != v.Frozen {
			c.label = &v.Frozen
		}
		if c.condition != nil || c.label != nil || len(c.remove) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }

// newCondition returns the condition Frozen of an object for a verdict. A verdict without a reason means that the group is
// not frozen, although the object's condition still shows a freeze. In that case newCondition sets the reason itself.
func newCondition(o client.Object, v Verdict, now time.Time) *metav1.Condition {
	c := &metav1.Condition{
		Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionFalse, Reason: v.Reason, Message: v.Message,
		ObservedGeneration: o.GetGeneration(), LastTransitionTime: metav1.NewTime(now),
	}
	if v.Frozen {
		c.Status = metav1.ConditionTrue
	}
	if c.Reason == "" {
		c.Reason, c.Message = ReasonWithin, "the group is not frozen"
	}
	return c
}
