package verdict

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// advice explains to an operator how to replace a Machine in spite of a brake.
const advice = "To replace one nevertheless, set the annotation " + v1alpha1.AnnotationReplace + `: "true" on the Machine`

// show computes condition Healthy of a Machine that is unhealthy or whose replacement is requested. Its message contains no
// number that depends on other Machines, because each change of such a number would cause a write of this Machine.
func (j *judgement) show(v *Verdict) {
	if !j.settled(v) {
		return
	}
	text := j.fate(v)
	if v.Trouble != "" {
		text = fmt.Sprintf("%s, since %s; %s", v.Trouble, v.Since.UTC().Format(time.RFC3339), text)
	}
	next := Condition{corev1.ConditionFalse, v.Reason, text}
	have := v.Machine.Condition(v1alpha1.ConditionHealthy)
	if have.Status != next.Status || have.Reason != next.Reason || have.Message != next.Message {
		v.Condition = &next
	}
}

// fate returns what will happen to the Machine, as a phrase.
func (j *judgement) fate(v *Verdict) string {
	switch v.Brake {
	case brakeNoOwner:
		return "it is not replaced, because no MachineSet would create another: delete it, or repair it by hand"
	case brakeOptedOut:
		return "it is not replaced, because an annotation (" + v1alpha1.AnnotationSkipHealth + " or " + v1alpha1.AnnotationSkipHealthCAPI + ") forbids it"
	case brakeSwitchedOff:
		return "it is not replaced, because the health timeout (flag --health-timeout, annotation " + v1alpha1.AnnotationHealthTimeout + ") is 0 or never"
	case brakeRollout:
		return "the rollout of its MachineDeployment replaces it"
	case brakeReplacing:
		return "it waits, because " + j.mostText(v.Machine.Group) + " (flag --health-max-replacing, annotation " + v1alpha1.AnnotationHealthMaxReplacing + ")"
	case brakeRefused:
		return "the API server refuses to delete it (the log of drover has the error); the deletion is repeated, and others of its group are replaced first"
	case "":
		if v.Asked {
			return "it is replaced, because an annotation requests it"
		}
		text := "it is replaced at " + v.Due.UTC().Format(time.RFC3339) + " unless it recovers"
		if v.attempt > 1 {
			text += fmt.Sprintf(". This is attempt %d in this group, and each waits longer: replacing Machines does not seem to help, so find the cause. %s",
				v.attempt, advice)
		}
		return text
	}
	_, text := j.shares.brake(v.Machine)
	return "it is not replaced while " + text + ". " + advice
}

func (j *judgement) mostText(g *Group) string {
	return (&budget{group: g, most: j.w.Settings.mostOf(g)}).text()
}
