package nodegroup

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// change is one write on the object of a group: the size, the Machines that go with it and the series of placeholders, all or
// nothing.
type change struct {
	// replicas is the size afterwards.
	replicas int32
	// remove are the Machines that go, whatever the delete policy would choose.
	remove []*member
	// raiseSeries renames the placeholders of units without a Machine.
	raiseSeries bool
	// kept are Machines that were to go and stay because the group is at its minimum.
	kept []*member
}

// none tells whether there is nothing to write.
func (c change) none(g *group) bool {
	return c.replicas == g.target && len(c.remove) == 0 && !c.raiseSeries
}

// removals are the object's removals with those of the change. An entry of the same name and another UID is of an
// earlier Machine, and makes room.
func (c change) removals(g *group, now time.Time) ([]v1alpha1.Removal, error) {
	named := make(map[string]bool, len(c.remove))
	added := make([]v1alpha1.Removal, 0, len(c.remove))
	for _, m := range c.remove {
		named[m.machine.Name] = true
		added = append(added, v1alpha1.Removal{Name: m.machine.Name, UID: m.machine.UID, Time: metav1.NewTime(now)})
	}
	list := slices.DeleteFunc(slices.Clone(g.owner.removals), func(r v1alpha1.Removal) bool { return named[r.Name] })
	list = append(list, added...)
	if len(list) > v1alpha1.MaxRemovals {
		return nil, refuse(ResourceExhausted, "removing %d machines from %s: its list of removals holds %d of at most %d; try again when some have gone",
			len(added), g.id, len(g.owner.removals), v1alpha1.MaxRemovals)
	}
	return list, nil
}

// patch is the merge patch that makes the change on exactly the version of the object that it was decided on.
func (c change) patch(g *group, now time.Time) ([]byte, error) {
	spec := map[string]any{}
	if c.replicas != g.target || g.owner.replicas == nil {
		spec["replicas"] = c.replicas
	}
	if len(c.remove) > 0 {
		list, err := c.removals(g, now)
		if err != nil {
			return nil, err
		}
		spec["removals"] = list
	}
	if c.raiseSeries {
		spec["placeholderSeries"] = nextSeries(g.series())
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": g.owner.GetUID(), "resourceVersion": g.owner.GetResourceVersion()},
		"spec":     spec,
	})
}

// nextSeries wraps before the number gets negative.
func nextSeries(n int32) int32 {
	if n < 0 || n == 1<<31-1 {
		return 0
	}
	return n + 1
}

// landed tells whether a live object is what the change makes of base, written by us: it is one generation on, and
// our manager owns what was written (rulings on CA-C62).
func (c change) landed(base, live *owner) bool {
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
		if !present[m.machine.UID] {
			return false
		}
	}
	sized := base.replicas == nil || *base.replicas != c.replicas
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == Manager && e.FieldsV1 != nil && c.owned(e.FieldsV1.GetRawBytes(), sized)
	})
}

// owned tells whether a field set holds every field that the change wrote.
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
