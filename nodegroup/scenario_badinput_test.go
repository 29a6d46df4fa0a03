package nodegroup

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/test/pools"
)

func TestRequestsWithInvalidArguments(t *testing.T) {
	w := pools.NewWorld()
	p, other := w.Pool("a", 3, 0, 5), w.Pool("b", 1, 0, 5)
	_, n := p.Node("a-1")
	_, foreign := other.Node("b-1")
	b := newBench(t, w)
	g, ctx, id := b.groups, t.Context(), p.ID()
	many := make([]membership.Node, 0, v1alpha1.MaxRemovals+1)
	for i := range cap(many) {
		many = append(many, membership.Node{Name: fmt.Sprint("nobody-", i)})
	}
	for _, tc := range []struct {
		name string
		kind model.Kind
		call func() error
	}{
		{"an increase by 0 is refused (CA-C56)", model.InvalidArgument, func() error { return g.IncreaseSize(ctx, id, 0) }},
		{"an increase by a negative number is refused (CA-C56)", model.InvalidArgument, func() error { return g.IncreaseSize(ctx, id, -1<<31) }},
		{"an increase that makes the size overflow an int32 is refused (CA-C57)", model.FailedPrecondition, func() error { return g.IncreaseSize(ctx, id, 1<<31-1) }},
		{"an increase without a group's id is refused", model.InvalidArgument, func() error { return g.IncreaseSize(ctx, "", 1) }},
		{"an increase of a group that does not exist is refused", model.NotFound, func() error { return g.IncreaseSize(ctx, id+"x", 1) }},
		{"an increase with a placeholder's ID as the group's id is refused", model.NotFound, func() error { return g.IncreaseSize(ctx, id+"/0/0", 1) }},
		{"a decrease by 0 is refused (CA-C83)", model.InvalidArgument, func() error { return g.DecreaseTargetSize(ctx, id, 0) }},
		{"a decrease by a positive delta is refused (CA-C83)", model.InvalidArgument, func() error { return g.DecreaseTargetSize(ctx, id, 1<<31-1) }},
		{"a decrease without a group's id is refused", model.InvalidArgument, func() error { return g.DecreaseTargetSize(ctx, "", -1) }},
		{"a decrease of a group that does not exist is refused", model.NotFound, func() error { return g.DecreaseTargetSize(ctx, "MachineSet/x/y", -1) }},
		{"a removal that names no node is refused", model.InvalidArgument, func() error { return g.DeleteNodes(ctx, id, nil) }},
		{"a removal without a group's id is refused", model.InvalidArgument, func() error { return g.DeleteNodes(ctx, "", []membership.Node{pools.Asked(n)}) }},
		{"a removal from a group that does not exist is refused", model.NotFound, func() error { return g.DeleteNodes(ctx, "x", []membership.Node{pools.Asked(n)}) }},
		{"removing a node without name and provider ID is refused (CA-C74)", model.InvalidArgument, func() error { return g.DeleteNodes(ctx, id, []membership.Node{pools.Asked(n), {}}) }},
		{"removing another group's node is refused (CA-C74)", model.FailedPrecondition, func() error { return g.DeleteNodes(ctx, id, []membership.Node{pools.Asked(n), pools.Asked(foreign)}) }},
		{"removing another group's placeholder is refused (CA-C74)", model.FailedPrecondition, func() error {
			return g.DeleteNodes(ctx, id, []membership.Node{pools.Asked(n), pools.Fake(pools.UnitID(other, 0, 0), "unregistered")})
		}},
		{"removing a node with an invalid provider ID is refused (CA-C74)", model.FailedPrecondition, func() error {
			return g.DeleteNodes(ctx, id, []membership.Node{pools.Asked(n), {Name: "x", ProviderID: "://\xff/../"}})
		}},
		{"removing a template node is refused (CA-C74)", model.FailedPrecondition, func() error { return g.DeleteNodes(ctx, id, []membership.Node{{Name: id + "/template"}}) }},
		{"removing nodes of no group is refused, even when they are more than the maximum length of spec.removals (CA-C74)", model.FailedPrecondition, func() error { return g.DeleteNodes(ctx, id, many) }},
		{"removing placeholders with a number above the group's size or a series that the group has not reached changes nothing (CA-C72)", "", func() error {
			return g.DeleteNodes(ctx, id, []membership.Node{pools.Fake(pools.UnitID(p, 0, 1<<31-1), "unregistered"), pools.Fake(pools.UnitID(p, 1<<31-1, 0), "unregistered")})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantKind(t, tc.call(), tc.kind)
			if b.patches.Load() != 0 {
				t.Error("it led to a write")
			}
		})
	}
	t.Run("reads of a group that does not exist, or without a group's id, are refused", func(t *testing.T) {
		for _, id := range []string{"x", "MachineDeployment//", id + "/", "\xff"} {
			_, size := g.TargetSize(id)
			_, instances := g.Instances(id)
			_, template := g.TemplateNode(id)
			wantKind(t, size, model.NotFound)
			wantKind(t, instances, model.NotFound)
			wantKind(t, template, model.NotFound)
		}
		_, err := g.TargetSize("")
		wantKind(t, err, model.InvalidArgument)
	})
}
