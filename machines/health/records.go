package health

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/patch"
)

// record is the part of a group's status that this controller writes: the current replacements, and condition RepairHeld.
type record struct {
	HealthReplacements []v1alpha1.HealthReplacement `json:"healthReplacements,omitempty"`
	Conditions         []metav1.Condition           `json:"conditions,omitempty"`
}

// records writes the [record] of each group into the group's status, and remembers it. It cannot rely on the stored
// status: the caches show a write only after a moment, and another client may replace the whole status.
type records struct {
	writer patch.Writer
	known  map[types.UID]record
}

// replacementsOf returns the current replacements of a group: the ones that this process last wrote, otherwise the stored
// ones.
func (r *records) replacementsOf(group types.UID, stored []v1alpha1.HealthReplacement) []v1alpha1.HealthReplacement {
	if known, ok := r.known[group]; ok {
		return known.HealthReplacements
	}
	return stored
}

// last returns the record that this process last wrote for a group, otherwise the stored record.
func (r *records) last(group client.Object) record {
	if known, ok := r.known[group.GetUID()]; ok {
		return known
	}
	return stored(group)
}

// sweep drops the records of groups that no longer exist.
func (r *records) sweep(exists map[types.UID]bool) {
	for uid := range r.known {
		if !exists[uid] {
			delete(r.known, uid)
		}
	}
}

// stored returns the record in the status of a group.
func stored(o client.Object) record {
	switch o := o.(type) {
	case *v1alpha1.MachineDeployment:
		return record{o.Status.HealthReplacements, ownCondition(o.Status.Conditions)}
	case *v1alpha1.MachineSet:
		return record{o.Status.HealthReplacements, ownCondition(o.Status.Conditions)}
	}
	return record{}
}

func ownCondition(all []metav1.Condition) []metav1.Condition {
	if c := meta.FindStatusCondition(all, v1alpha1.ConditionRepairHeld); c != nil {
		return []metav1.Condition{*c}
	}
	return nil
}

// wanted returns the record that a group must have. had is the record that it has now.
func wanted(p *verdict.GroupPlan, had record, now time.Time) record {
	if p == nil {
		return record{}
	}
	want := record{HealthReplacements: wholeSeconds(p.Replacements)}
	if p.Held == "" {
		return want
	}
	held := metav1.Condition{
		Type: v1alpha1.ConditionRepairHeld, Status: metav1.ConditionTrue, Reason: string(p.Held), Message: p.Message,
		LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	if len(had.Conditions) > 0 {
		held.LastTransitionTime = had.Conditions[0].LastTransitionTime
	}
	want.Conditions = []metav1.Condition{held}
	return want
}

// wholeSeconds returns the replacements with their times cut to seconds, the precision of the API server.
func wholeSeconds(entries []v1alpha1.HealthReplacement) []v1alpha1.HealthReplacement {
	var out []v1alpha1.HealthReplacement
	for _, e := range entries {
		e.Started = e.Started.Rfc3339Copy()
		out = append(out, e)
	}
	return out
}

// write stores the record in the status of the group.
func (r *records) write(ctx context.Context, group client.Object, want record) error {
	if err := r.writer.ApplyStatus(ctx, group, &want); err != nil {
		return fmt.Errorf("writing the status of %T %s/%s, which records the Machines being replaced (if the status lacks this field, apply the CRDs of this version): %w",
			group, group.GetNamespace(), group.GetName(), err)
	}
	r.known[group.GetUID()] = want
	return nil
}
