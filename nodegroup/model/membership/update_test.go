package membership_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestApplyingAWatchEventToTheMembershipIndex(t *testing.T) {
	w := pools.NewWorld()
	p, other := w.Pool("a", 2, 0, 5), w.Pool("b", 1, 0, 5)
	m, n := p.Node("a-1")
	foreign := n.DeepCopy()
	foreign.Name, foreign.UID, foreign.Spec.ProviderID = "control-plane", "control-plane", "aws:///eu-1/i-1"
	moved := m.DeepCopy()
	moved.OwnerReferences = nil
	before := index(w)
	for name, tc := range map[string]struct {
		event membership.Event
		want  []string
	}{
		"a changed deployment marks its group as changed":                         {membership.Event{Object: other.Deployment}, []string{other.ID()}},
		"a changed set marks its deployment's group as changed":                   {membership.Event{Object: p.Set}, []string{p.ID()}},
		"a changed Machine marks its group as changed":                            {membership.Event{Object: m}, []string{p.ID()}},
		"a Machine that leaves its set marks the group that it leaves as changed": {membership.Event{Object: moved}, []string{p.ID()}},
		"a deleted Node marks its Machine's group as changed":                     {membership.Event{Object: n, Gone: true}, []string{p.ID()}},
		"a Node that belongs to no Machine marks no group as changed":             {membership.Event{Object: foreign}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, dirty := before.Apply([]membership.Event{tc.event})
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(dirty))); diff != "" {
				t.Errorf("changed groups (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the deletion of a Node changes only the new index, so a reader of the old index still finds the Node's group", func(t *testing.T) {
		after, _ := before.Apply([]membership.Event{{Object: n, Gone: true}, {Object: moved}})
		if got := groupOf(before, pools.Asked(n)); got != p.ID() {
			t.Errorf("before the events the node belongs to %q, want %q", got, p.ID())
		}
		if got := groupOf(after, pools.Asked(n)); got != "" {
			t.Errorf("after the events the node belongs to %q, want none", got)
		}
	})
}
