package model

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Manager is the field manager of every change.
const Manager = "drover-nodegroup"

// Change is one write to the object of a group. It changes the size, the list of Machines to remove and the series of
// placeholders, all or nothing.
type Change struct {
	// Group is the group in the version for which the change was decided.
	Group *Group
	// Replicas is the new size.
	Replicas int32
	// Asked is the number of replicas without a node that a DecreaseTargetSize call wants to take back; 0 for other calls.
	Asked int64
	// Remove are the Machines to remove, regardless of the delete policy.
	Remove []*membership.Member
	// raiseSeries is true when the placeholders of replicas without a Machine get new names.
	raiseSeries bool
	// Kept are Machines that the call asked to remove, but that stay because the group is at its minimum.
	Kept []*membership.Member
}

// None reports whether there is nothing to write.
func (c Change) None() bool {
	return c.Replicas == c.Group.Target && len(c.Remove) == 0 && !c.raiseSeries
}

// Clamped returns by how many replicas without a node the change lowers the size, and reports whether the call asked for more.
func (c Change) Clamped() (int64, bool) {
	lowered := int64(c.Group.Target) - int64(c.Replicas)
	return lowered, c.Asked > lowered && c.Asked > 0
}

// Naming returns the end of an Event's text, which lists the Machines to remove; empty when there are none.
func (c Change) Naming() string {
	const most = 10
	if len(c.Remove) == 0 {
		return ""
	}
	var names []string
	for _, m := range c.Remove[:min(most, len(c.Remove))] {
		names = append(names, m.Machine.Name)
	}
	if len(c.Remove) > most {
		names = append(names, "…")
	}
	return ", removing " + strings.Join(names, ", ")
}

// removals returns the object's removals together with those of the change. It replaces an entry with the same name and another
// UID, which refers to an earlier Machine.
func (c Change) removals(now time.Time) ([]v1alpha1.Removal, error) {
	named := make(map[string]bool, len(c.Remove))
	added := make([]v1alpha1.Removal, 0, len(c.Remove))
	for _, m := range c.Remove {
		named[m.Machine.Name] = true
		added = append(added, v1alpha1.Removal{Name: m.Machine.Name, UID: m.UID(), Time: metav1.NewTime(now)})
	}
	before := c.Group.Owner.Removals
	all := append(slices.DeleteFunc(slices.Clone(before), func(r v1alpha1.Removal) bool { return named[r.Name] }), added...)
	if len(all) > v1alpha1.MaxRemovals {
		return nil, Refusef(ResourceExhausted, "removing %d machines from %s: its list of removals has %d of at most %d entries; try again when some of those machines are gone",
			len(added), c.Group.ID, len(before), v1alpha1.MaxRemovals)
	}
	return all, nil
}

// Patch returns a merge patch that applies only to the version of the object on which the change was decided.
//
// Errors: ResourceExhausted when the list of removals would be too long.
func (c Change) Patch(now time.Time) ([]byte, error) {
	owner := c.Group.Owner
	spec := map[string]any{}
	if c.Replicas != c.Group.Target || owner.Replicas == nil {
		spec["replicas"] = c.Replicas
	}
	if len(c.Remove) > 0 {
		removals, err := c.removals(now)
		if err != nil {
			return nil, err
		}
		spec["removals"] = removals
	}
	if c.raiseSeries {
		spec["placeholderSeries"] = nextSeries(owner.PlaceholderSeries())
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": owner.GetUID(), "resourceVersion": owner.GetResourceVersion()},
		"spec":     spec,
	})
}

// nextSeries returns the series after n. After the largest number it returns 0.
func nextSeries(n int32) int32 {
	if n < 0 || n == 1<<31-1 {
		return 0
	}
	return n + 1
}

// Landed reports whether a live object is the result of this change: its generation is the next one, it has the size and the
// removals of the change, and drover's field manager owns these fields (CA-C62).
func (c Change) Landed(live *membership.Owner) bool {
	base := c.Group.Owner
	if live.GetUID() != base.GetUID() || live.GetGeneration() != base.GetGeneration()+1 {
		return false
	}
	if live.Replicas == nil || *live.Replicas != c.Replicas {
		return false
	}
	present := make(map[types.UID]bool, len(live.Removals))
	for _, r := range live.Removals {
		present[r.UID] = true
	}
	for _, m := range c.Remove {
		if !present[m.UID()] {
			return false
		}
	}
	sized := base.Replicas == nil || *base.Replicas != c.Replicas
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == Manager && e.FieldsV1 != nil && c.owned(e.FieldsV1.GetRawBytes(), sized)
	})
}

// Undecidable reports whether other clients have changed the object since the change was decided, so that drover cannot see
// whether the change was applied.
func (c Change) Undecidable(live *membership.Owner) bool {
	return live.GetGeneration() > c.Group.Owner.GetGeneration()+1 && len(c.Remove) == 0
}

// owned reports whether a managed-fields entry contains every field that the change wrote.
func (c Change) owned(raw []byte, sized bool) bool {
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	_, replicas := fields.Spec["f:replicas"]
	_, removals := fields.Spec["f:removals"]
	_, series := fields.Spec["f:placeholderSeries"]
	return (replicas || !sized) && (removals || len(c.Remove) == 0) && (series || !c.raiseSeries)
}
