package nodegroup

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Manager is the field manager of every change.
const Manager = "drover-nodegroup"

// change is one write to the object of a group: the size, the Machines that are removed with it and the series of
// placeholders, all or nothing.
type change struct {
	// group is what the change was decided on.
	group *group
	// replicas is the size afterwards.
	replicas int32
	// asked is how many requests for nodes were to be taken back; 0 for other calls.
	asked int64
	// remove are the Machines that are removed, whatever the delete policy would choose.
	remove []*member
	// raiseSeries renames the placeholders of units without a Machine.
	raiseSeries bool
	// kept are Machines that were to be removed and stay because the group is at its minimum.
	kept []*member
}

// none reports whether there is nothing to write.
func (c change) none() bool {
	return c.replicas == c.group.target && len(c.remove) == 0 && !c.raiseSeries
}

// clamped reports whether fewer requests for nodes are taken back than were asked for, and how many are.
func (c change) clamped() (int64, bool) {
	lowered := int64(c.group.target) - int64(c.replicas)
	return lowered, c.asked > lowered && c.asked > 0
}

// naming lists the Machines that are removed, for an Event; empty for none.
func (c change) naming() string {
	const most = 10
	if len(c.remove) == 0 {
		return ""
	}
	var names []string
	for _, m := range c.remove[:min(most, len(c.remove))] {
		names = append(names, m.machine.Name)
	}
	if len(c.remove) > most {
		names = append(names, "…")
	}
	return ", removing " + strings.Join(names, ", ")
}

// removals returns the object's removals with those of the change. An entry of the same name and another UID is of an
// earlier Machine, and is replaced.
func (c change) removals(now time.Time) ([]v1alpha1.Removal, error) {
	named := make(map[string]bool, len(c.remove))
	added := make([]v1alpha1.Removal, 0, len(c.remove))
	for _, m := range c.remove {
		named[m.machine.Name] = true
		added = append(added, v1alpha1.Removal{Name: m.machine.Name, UID: m.uid(), Time: metav1.NewTime(now)})
	}
	before := c.group.owner.removals
	all := append(slices.DeleteFunc(slices.Clone(before), func(r v1alpha1.Removal) bool { return named[r.Name] }), added...)
	if len(all) > v1alpha1.MaxRemovals {
		return nil, refuse(ResourceExhausted, "removing %d machines from %s: its list of removals holds %d of at most %d; try again when some have gone",
			len(added), c.group.id, len(before), v1alpha1.MaxRemovals)
	}
	return all, nil
}

// patch returns the merge patch that makes the change on exactly the version of the object that it was decided on.
//
// Errors: ResourceExhausted when the list of removals would be too long.
func (c change) patch(now time.Time) ([]byte, error) {
	owner := c.group.owner
	spec := map[string]any{}
	if c.replicas != c.group.target || owner.replicas == nil {
		spec["replicas"] = c.replicas
	}
	if len(c.remove) > 0 {
		removals, err := c.removals(now)
		if err != nil {
			return nil, err
		}
		spec["removals"] = removals
	}
	if c.raiseSeries {
		spec["placeholderSeries"] = nextSeries(owner.placeholderSeries())
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": owner.GetUID(), "resourceVersion": owner.GetResourceVersion()},
		"spec":     spec,
	})
}

// nextSeries wraps before the number becomes negative.
func nextSeries(n int32) int32 {
	if n < 0 || n == 1<<31-1 {
		return 0
	}
	return n + 1
}

// landed reports whether a live object is what the change makes of the group's object, written by us: it is one generation
// later, and our manager owns what was written (CA-C62).
func (c change) landed(live *owner) bool {
	base := c.group.owner
	if live.GetUID() != base.GetUID() || live.GetGeneration() != base.GetGeneration()+1 {
		return false
	}
	if live.replicas == nil || *live.replicas != c.replicas {
		return false
	}
	present := make(map[types.UID]bool, len(live.removals))
	for _, r := range live.removals {
		present[r.UID] = true
	}
	for _, m := range c.remove {
		if !present[m.uid()] {
			return false
		}
	}
	sized := base.replicas == nil || *base.replicas != c.replicas
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == Manager && e.FieldsV1 != nil && c.owned(e.FieldsV1.GetRawBytes(), sized)
	})
}

// undecidable reports whether others have changed the object since, so that nobody can see whether the change came first.
func (c change) undecidable(live *owner) bool {
	return live.GetGeneration() > c.group.owner.GetGeneration()+1 && len(c.remove) == 0
}

// owned reports whether a field set holds every field that the change wrote.
func (c change) owned(raw []byte, sized bool) bool {
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	_, replicas := fields.Spec["f:replicas"]
	_, removals := fields.Spec["f:removals"]
	_, series := fields.Spec["f:placeholderSeries"]
	return (replicas || !sized) && (removals || len(c.remove) == 0) && (series || !c.raiseSeries)
}
