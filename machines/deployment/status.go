package deployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/ownership"
	"github.com/drover-project/drover/machines/rollout"
)

// Reasons of the condition BoundsValid.
const (
	reasonBounds     = "BoundsRead"
	reasonMinMissing = "MinSizeMissing"
	reasonBadBounds  = "BoundsInvalid"
	reasonMaxLowered = "MaxSizeTooLarge"
)

// reasonWithoutEffect is the reason of the condition Warnings.
const reasonWithoutEffect = "WithoutEffect"

// otherRevision is the spelling of [v1alpha1.AnnotationRevision] in MetaKube's manifests. Annotation keys are case-sensitive, so this
// key is another annotation.
const otherRevision = "machineDeployment.clusters.k8s.io/revision"

// ours lists the conditions that this controller writes. It leaves other conditions alone.
var ours = []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded, v1alpha1.ConditionBoundsValid, v1alpha1.ConditionWarnings, v1alpha1.ConditionFrozen}

// statuses computes and writes the status of deployments.
type statuses struct {
	ownership.Statuses
	events events.EventRecorder
}

// bounds returns the deployment's bounds and a condition that describes them; the condition is nil when there are no bounds. An Event
// reports a bad value or a missing minimum once.
func (s *statuses) bounds(d *v1alpha1.MachineDeployment) (v1alpha1.Bounds, *metav1.Condition) {
	bounds, err := v1alpha1.ParseBounds(d.Annotations)
	c := metav1.Condition{Type: v1alpha1.ConditionBoundsValid, Status: metav1.ConditionTrue, Reason: reasonBounds,
		Message: fmt.Sprintf("a node group of %d to %d Machines", bounds.Min, bounds.Max)}
	switch {
	case err != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonBadBounds, err.Error()
	case !bounds.Listed:
		return bounds, nil
	case bounds.MaxLowered:
		c.Reason, c.Message = reasonMaxLowered, c.Message+fmt.Sprintf("; the annotation asks for more than %d, which is the largest possible size", v1alpha1.MaxReplicas)
	case bounds.MinMissing:
		c.Reason, c.Message = reasonMinMissing, c.Message+"; no annotation gives a minimum, so it is 0"
	}
	if s.transition(d, &c) && c.Reason != reasonBounds {
		s.events.Eventf(d, nil, "Warning", c.Reason, "ReadBounds", "%s", c.Message)
	}
	return bounds, &c
}

// warnings returns a condition that names the values that drover accepts although they have no effect, and what the API server stores
// otherwise than drover writes it (stored; "" for nothing). It is nil when there is neither. An Event reports a new warning.
func (s *statuses) warnings(d *v1alpha1.MachineDeployment, stored string) *metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue, Reason: reasonWithoutEffect}
	var texts []string
	if _, given := d.Annotations[otherRevision]; given {
		texts = append(texts, fmt.Sprintf("annotation %s: has no effect (drover keeps the revision in %s); the annotation may be removed", otherRevision, v1alpha1.AnnotationRevision))
	}
	texts = slices.Concat(texts, d.Spec.WithoutEffect(), rollout.ReadOtherwise(d))
	if stored != "" {
		c.Reason, texts = ownership.ReasonStoredDifferently, append(texts, stored)
	}
	if len(texts) == 0 {
		return nil
	}
	c.Message = fault.Line(strings.Join(texts, "; "))
	if s.transition(d, &c) {
		s.events.Eventf(d, nil, "Warning", c.Reason, "Reconcile", "%s", c.Message)
	}
	return &c
}

// reportDegraded reports by an Event that the deployment has lost sets, or that one of its sets has an error, when the stored condition does
// not say so yet.
func (s *statuses) reportDegraded(d *v1alpha1.MachineDeployment, st v1alpha1.MachineDeploymentStatus) {
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionDegraded)
	former := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded)
	if (c.Reason == rollout.ReasonSetsLost || c.Reason == rollout.ReasonSetError) && (former == nil || former.Reason != c.Reason) {
		s.events.Eventf(d, nil, "Warning", c.Reason, "Reconcile", "%s", c.Message)
	}
}

// transition sets the transition time of a condition, and reports whether its reason or message differ from the stored ones.
func (s *statuses) transition(d *v1alpha1.MachineDeployment, c *metav1.Condition) (changed bool) {
	*c = rollout.Dated(d.Status.Conditions, *c, d.Generation, s.Clock.Now())
	former := meta.FindStatusCondition(d.Status.Conditions, c.Type)
	return former == nil || former.Reason != c.Reason || former.Message != c.Message
}

// write applies the fields that this controller owns, when they differ from what is stored.
func (s *statuses) write(ctx context.Context, d *v1alpha1.MachineDeployment, st v1alpha1.MachineDeploymentStatus) error {
	if equality.Semantic.DeepEqual(owned(d.Status), owned(st)) {
		return nil
	}
	return s.Write(ctx, d, &st)
}

// withoutOthers returns a status without the fields that other controllers own.
func withoutOthers(st v1alpha1.MachineDeploymentStatus) v1alpha1.MachineDeploymentStatus {
	st.NodeTemplate, st.Backoffs, st.JoinOutcomes, st.RecentJoins, st.HealthReplacements = nil, nil, nil, "", nil
	return st
}

// owned reduces a status to the fields that this controller owns, as the API server stores them: conditions sorted, times in whole seconds.
func owned(st v1alpha1.MachineDeploymentStatus) v1alpha1.MachineDeploymentStatus {
	st = withoutOthers(st)
	st.Conditions = ownership.ConditionsOf(st.Conditions, ours)
	return st
}

// statusInterval is the least time between two writes of the counts of Machines in a deployment's status. The first change after
// that time is written immediately. Urgent changes are always written immediately.
const statusInterval = 15 * time.Second

// urgent reports whether a change of the status must be written immediately. Every change is urgent, except changes of the
// numbers of Machines and of the messages and times of conditions. For example, a change of status.lastReplicas is urgent,
// because drover restores that size when a client drops spec.replicas.
func urgent(stored, now v1alpha1.MachineDeploymentStatus) bool {
	return !equality.Semantic.DeepEqual(withoutNumbers(owned(stored)), withoutNumbers(owned(now)))
}

// withoutNumbers returns a status without the fields that change with every Machine.
func withoutNumbers(st v1alpha1.MachineDeploymentStatus) v1alpha1.MachineDeploymentStatus {
	st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas = 0, 0, 0, 0, 0
	for i := range st.Conditions {
		st.Conditions[i].Message, st.Conditions[i].LastTransitionTime = "", metav1.Time{}
	}
	return st
}

// writeWhenDue writes the status when it differs from what is stored, and is urgent or due. It returns how long to wait until the write
// is due.
func (s *statuses) writeWhenDue(ctx context.Context, d *v1alpha1.MachineDeployment, st v1alpha1.MachineDeploymentStatus) (time.Duration, error) {
	if equality.Semantic.DeepEqual(owned(d.Status), owned(st)) {
		return 0, nil
	}
	return s.WriteWhenDue(ctx, d, &st, statusInterval, urgent(d.Status, st))
}

// refuse writes a status that describes what is invalid in the spec. The status also contains input, the conditions about annotations.
func (s *statuses) refuse(ctx context.Context, d *v1alpha1.MachineDeployment, invalid error, input []metav1.Condition) error {
	st := withoutOthers(*d.Status.DeepCopy())
	st.ObservedGeneration = d.Generation
	progressing := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: rollout.ReasonOf(invalid),
		Message: invalid.Error()}
	if s.transition(d, &progressing) {
		s.events.Eventf(d, nil, "Warning", progressing.Reason, "Reconcile", "%s", invalid.Error())
	}
	st.Conditions = []metav1.Condition{progressing}
	for _, c := range d.Status.Conditions {
		if c.Type == v1alpha1.ConditionAvailable || c.Type == v1alpha1.ConditionFrozen {
			st.Conditions = append(st.Conditions, c)
		}
	}
	st.Conditions = append(st.Conditions, input...)
	return s.write(ctx, d, st)
}
