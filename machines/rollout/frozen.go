package rollout

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons of the condition Frozen.
const (
	ReasonOvershoot = "OverShootingReplicaCount"
	ReasonWithin    = "WithinReplicaCount"
)

// FrozenCondition returns the condition Frozen for an object with the given stored conditions. why explains why the object is frozen; it is
// empty when it is not. FrozenCondition returns nil for an object that is not frozen and has no such condition.
func FrozenCondition(stored []metav1.Condition, why string) *metav1.Condition {
	switch {
	case why != "":
		return &metav1.Condition{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: ReasonOvershoot, Message: why}
	case meta.FindStatusCondition(stored, v1alpha1.ConditionFrozen) != nil:
		return &metav1.Condition{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionFalse, Reason: ReasonWithin, Message: "no Machine is missing because of a freeze"}
	}
	return nil
}

// WhyFrozen returns the message of the condition Frozen; "" when the condition is not True.
func WhyFrozen(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionFrozen); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// whySetFrozen returns why one of the sets is frozen; "" when none is.
func whySetFrozen(sets []*setWork) string {
	for _, s := range sets {
		if why := WhyFrozen(s.set.Status.Conditions); why != "" {
			return "set " + s.set.Name + ": " + why
		}
	}
	return ""
}
