package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Reasons of the conditions Available, Progressing and Degraded.
const (
	ReasonMinimumAvailable = "MinimumReplicasAvailable"
	ReasonBelowMinimum     = "MinimumReplicasUnavailable"
	ReasonComplete         = "NewMachineSetAvailable"
	ReasonUpdating         = "MachineSetUpdated"
	ReasonPaused           = "DeploymentPaused"
	ReasonDeadline         = "ProgressDeadlineExceeded"
	ReasonInvalid          = "InvalidSpec"
	ReasonSizeTooLarge     = "SizeTooLarge"
	ReasonFailed           = "MachinesFailed"
	ReasonSetsLost         = "MachineSetsLost"
	ReasonSetError         = "MachineSetError"
	ReasonHealthy          = "AsExpected"
)

// ReasonOf returns the reason of a condition that reports an error of [Compute].
func ReasonOf(invalid error) string {
	if errors.Is(invalid, ErrSizeTooLarge) {
		return ReasonSizeTooLarge
	}
	return ReasonInvalid
}

// quiet is how long a rollout makes no progress before Progressing names what it waits for. A rollout that makes progress changes its
// numbers, and would only write that text more often.
const quiet = time.Minute

// defaultDeadline is the deadline when spec.progressDeadlineSeconds is not set.
const defaultDeadline = 600 * time.Second

// status counts the living Machines and sets the conditions that the deployment controller writes. The returned duration is the time until
// a Ready Machine becomes available, or until the progress deadline.
func (w *work) status(collisions *int32) (v1alpha1.MachineDeploymentStatus, time.Duration) {
	st, wait := w.numbers()
	st.ObservedGeneration = w.d.Generation
	st.LastReplicas = &w.replicas
	st.LastPlaceholderSeries = cmp.Or(w.d.Spec.PlaceholderSeries, w.d.Status.LastPlaceholderSeries)
	st.CollisionCount = collisions
	if selector, err := metav1.LabelSelectorAsSelector(&w.d.Spec.Selector); err == nil {
		st.Selector = selector.String()
	}
	available := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: ReasonMinimumAvailable,
		Message: fmt.Sprintf("%d of %d Machines are available", st.AvailableReplicas, w.replicas)}
	if st.AvailableReplicas < w.floor() {
		available.Status, available.Reason = metav1.ConditionFalse, ReasonBelowMinimum
	}
	p := w.progress(st)
	st.Conditions = []metav1.Condition{w.dated(available), p, w.degraded(p)}
	if c := FrozenCondition(w.d.Status.Conditions, whySetFrozen(w.sets)); c != nil {
		st.Conditions = append(st.Conditions, w.dated(*c))
	}
	if p.Status == metav1.ConditionTrue && p.Reason != ReasonComplete {
		if left := p.LastTransitionTime.Add(quiet).Sub(w.now); left > 0 {
			wait = Soonest(wait, left)
		}
		if deadline, ok := deadlineOf(w.d); ok {
			wait = Soonest(wait, p.LastTransitionTime.Add(deadline).Sub(w.now)+time.Second)
		}
	}
	return st, wait
}

func (w *work) numbers() (v1alpha1.MachineDeploymentStatus, time.Duration) {
	var st v1alpha1.MachineDeploymentStatus
	var wait time.Duration
	for _, s := range w.sets {
		for _, f := range s.living {
			st.Replicas++
			if s == w.current {
				st.UpdatedReplicas++
			}
			switch {
			case f.Available:
				st.ReadyReplicas++
				st.AvailableReplicas++
			case f.NodeReady:
				st.ReadyReplicas++
				wait = Soonest(wait, AvailableAfter(f.Machine, minReadySeconds(w.d), w.now))
			}
		}
	}
	st.UnavailableReplicas = max(0, max(w.sizes(), w.replicas)-st.AvailableReplicas)
	return st, wait
}

// complete reports whether the deployment has exactly the wanted number of Machines, and all of them have the current template and are
// available.
func complete(st v1alpha1.MachineDeploymentStatus, replicas int32) bool {
	return st.UpdatedReplicas == replicas && st.Replicas == replicas && st.AvailableReplicas == replicas
}

// progress returns the condition Progressing. Its transition time is the time of the last progress. The rollout makes progress when the
// number of updated, Ready or available Machines rises, when the number of old Machines falls, or when the spec changes.
func (w *work) progress(st v1alpha1.MachineDeploymentStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: ReasonUpdating,
		Message: fmt.Sprintf("%d of %d Machines have the current template, and %d are available", st.UpdatedReplicas, w.replicas, st.AvailableReplicas)}
	switch {
	case w.d.Spec.Paused && !w.stalled():
		c.Status, c.Reason = metav1.ConditionUnknown, ReasonPaused
		c.Message = "spec.paused is set: the number of Machines follows spec.replicas, and no Machine is replaced; to go on with rollouts, set it to false"
	case complete(st, w.replicas):
		c.Reason = ReasonComplete
		c.Message = fmt.Sprintf("all %d Machines have the current template and are available", w.replicas)
	case !w.progressed(st) && w.deadlineExceeded():
		c.Status, c.Reason = metav1.ConditionFalse, ReasonDeadline
		deadline, _ := deadlineOf(w.d)
		c.Message = fmt.Sprintf("no progress for %s: %s; %s", deadline, c.Message, w.waiting())
	}
	c = w.dated(c)
	former := meta.FindStatusCondition(w.d.Status.Conditions, c.Type)
	if former == nil || former.Reason != c.Reason || c.Reason == ReasonUpdating && w.progressed(st) {
		c.LastTransitionTime = metav1.NewTime(w.now)
	}
	if c.Reason == ReasonUpdating && w.now.Sub(c.LastTransitionTime.Time) >= quiet {
		c.Message += "; " + w.waiting()
	}
	return c
}

// degraded returns the condition Degraded. The condition is True when an operator has to act. The message names the first fault.
func (w *work) degraded(progress metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue}
	failed, example := w.failed()
	set, lost := w.setWithError(), w.describeLost()
	switch {
	case lost != "":
		c.Reason, c.Message = ReasonSetsLost, lost
	case progress.Reason == ReasonDeadline:
		c.Reason, c.Message = ReasonDeadline, "the rollout stopped: "+progress.Message
	case set != nil:
		c.Reason, c.Message = ReasonSetError, fmt.Sprintf("set %s: %s: %s", set.Name, *set.Status.ErrorReason, ptr.Deref(set.Status.ErrorMessage, ""))
	case failed > 0:
		c.Reason, c.Message = ReasonFailed, fmt.Sprintf("%d Machines have failed, %s among them", failed, example)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonHealthy, "no Machine has failed and no rollout is stuck"
	}
	return w.dated(c)
}

// failed returns how many living Machines have failed, and the first of them by name.
func (w *work) failed() (count int, example string) {
	for _, s := range w.sets {
		for _, f := range s.living {
			if !f.Failed() {
				continue
			}
			if count++; example == "" || f.Machine.Name < example {
				example = f.Machine.Name
			}
		}
	}
	return count, example
}

func (w *work) setWithError() *v1alpha1.MachineSet {
	for _, s := range w.sets {
		if reason := s.set.Status.ErrorReason; reason != nil && *reason != "" {
			return s.set
		}
	}
	return nil
}

func (w *work) progressed(st v1alpha1.MachineDeploymentStatus) bool {
	former := w.d.Status
	return st.UpdatedReplicas > former.UpdatedReplicas || st.ReadyReplicas > former.ReadyReplicas ||
		st.AvailableReplicas > former.AvailableReplicas || former.ObservedGeneration != w.d.Generation ||
		st.Replicas-st.UpdatedReplicas < former.Replicas-former.UpdatedReplicas
}

// stalled reports whether an earlier plan found that the deadline was exceeded.
func (w *work) stalled() bool {
	c := meta.FindStatusCondition(w.d.Status.Conditions, v1alpha1.ConditionProgressing)
	return c != nil && c.Reason == ReasonDeadline
}

// deadlineExceeded reports whether the time since the last progress exceeds the deadline of the deployment.
func (w *work) deadlineExceeded() bool {
	c := meta.FindStatusCondition(w.d.Status.Conditions, v1alpha1.ConditionProgressing)
	deadline, ok := deadlineOf(w.d)
	if c == nil || !ok || w.d.Status.ObservedGeneration != w.d.Generation {
		return false
	}
	return c.Reason == ReasonDeadline || c.Reason == ReasonUpdating && w.now.After(c.LastTransitionTime.Add(deadline))
}

func deadlineOf(d *v1alpha1.MachineDeployment) (time.Duration, bool) {
	if d.Spec.ProgressDeadlineSeconds == nil {
		return defaultDeadline, true
	}
	return seconds(*d.Spec.ProgressDeadlineSeconds), *d.Spec.ProgressDeadlineSeconds > 0
}

// Dated returns a condition with the time of its last transition: that of the stored condition of the same type if it has the same status,
// else now.
func Dated(stored []metav1.Condition, c metav1.Condition, generation int64, now time.Time) metav1.Condition {
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now)
	if former := meta.FindStatusCondition(stored, c.Type); former != nil && former.Status == c.Status {
		c.LastTransitionTime = former.LastTransitionTime
	}
	return c
}

func (w *work) dated(c metav1.Condition) metav1.Condition {
	return Dated(w.d.Status.Conditions, c, w.d.Generation, w.now)
}

// waiting describes what the rollout waits for, and where to look: a freeze, the first Machine of the current template, by name, that is
// not available, or else the first Machine that is being deleted.
func (w *work) waiting() string {
	if whySetFrozen(w.sets) != "" {
		return "the group is frozen, so no Machine is created: see the condition " + v1alpha1.ConditionFrozen
	}
	starts, ends := map[string]string{}, map[string]string{}
	for _, s := range w.sets {
		for _, f := range s.living {
			if s == w.current && !f.Available {
				starts[f.Machine.Name] = whyNotReady(f.Machine)
			}
		}
		for _, m := range s.machines {
			if m.DeletionTimestamp != nil {
				ends[m.Name] = textOf(m.Condition(v1alpha1.ConditionDeleting))
			}
		}
	}
	if name, why := first(starts); name != "" {
		return fmt.Sprintf("Machine %s is not available: %s", name, why)
	}
	if name, why := first(ends); name != "" {
		return fmt.Sprintf("Machine %s is being deleted: %s", name, why)
	}
	return "look at the conditions of its MachineSets"
}

// first returns the first name of a map that has a text, with this text; without such a text, the first name.
func first(texts map[string]string) (name, text string) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if name == "" || text == "" && texts[key] != "" {
			name, text = key, texts[key]
		}
	}
	return name, cmp.Or(text, "look at the conditions of this Machine")
}

// whyNotReady returns the reason and message of the condition that shows why a Machine is not available.
func whyNotReady(m *v1alpha1.Machine) string {
	if _, ready := ReadySince(m); ready && unhealthy(m) {
		return textOf(m.Condition(v1alpha1.ConditionHealthy))
	} else if ready {
		return "it has not been Ready for long enough (spec.minReadySeconds)"
	}
	return textOf(m.Condition(v1alpha1.ConditionReady))
}

// textOf returns the reason and message of a condition.
func textOf(c *v1alpha1.MachineCondition) string {
	if c.Message == "" {
		return c.Reason
	}
	return c.Reason + ": " + c.Message
}
