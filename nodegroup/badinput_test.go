package nodegroup

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestMalformedRequests(t *testing.T) {
	w := newWorld()
	p, other := w.pool("a", 3, 0, 5), w.pool("b", 1, 0, 5)
	_, n := p.node("a-1")
	_, foreign := other.node("b-1")
	b := newBench(t, w)
	g, ctx, id := b.groups, t.Context(), p.id()
	many := make([]Node, 0, v1alpha1.MaxRemovals+1)
	for i := range cap(many) {
		many = append(many, Node{Name: fmt.Sprint("nobody-", i)})
	}
	for _, tc := range []struct {
		name string
		kind Kind
		call func() error
	}{
		{"CA-C56 growing by 0", InvalidArgument, func() error { return g.IncreaseSize(ctx, id, 0) }},
		{"CA-C56 growing by less than nothing", InvalidArgument, func() error { return g.IncreaseSize(ctx, id, -1<<31) }},
		{"CA-C57 growing beyond all numbers", FailedPrecondition, func() error { return g.IncreaseSize(ctx, id, 1<<31-1) }},
		{"growing without an id", InvalidArgument, func() error { return g.IncreaseSize(ctx, "", 1) }},
		{"growing an unknown group", NotFound, func() error { return g.IncreaseSize(ctx, id+"x", 1) }},
		{"growing a placeholder", NotFound, func() error { return g.IncreaseSize(ctx, id+"/0/0", 1) }},
		{"CA-C83 taking back 0", InvalidArgument, func() error { return g.DecreaseTargetSize(ctx, id, 0) }},
		{"CA-C83 taking back a positive number", InvalidArgument, func() error { return g.DecreaseTargetSize(ctx, id, 1<<31-1) }},
		{"taking back without an id", InvalidArgument, func() error { return g.DecreaseTargetSize(ctx, "", -1) }},
		{"taking back in an unknown group", NotFound, func() error { return g.DecreaseTargetSize(ctx, "MachineSet/x/y", -1) }},
		{"removing nothing", InvalidArgument, func() error { return g.DeleteNodes(ctx, id, nil) }},
		{"removing without an id", InvalidArgument, func() error { return g.DeleteNodes(ctx, "", []Node{asked(n)}) }},
		{"removing from an unknown group", NotFound, func() error { return g.DeleteNodes(ctx, "x", []Node{asked(n)}) }},
		{"CA-C74 removing a node that has no name", InvalidArgument, func() error { return g.DeleteNodes(ctx, id, []Node{asked(n), {}}) }},
		{"CA-C74 removing another group's node", FailedPrecondition, func() error { return g.DeleteNodes(ctx, id, []Node{asked(n), asked(foreign)}) }},
		{"CA-C74 removing another group's placeholder", FailedPrecondition, func() error {
			return g.DeleteNodes(ctx, id, []Node{asked(n), fake(unitID(other, 0, 0), "unregistered")})
		}},
		{"CA-C74 removing by a provider ID that is none", FailedPrecondition, func() error {
			return g.DeleteNodes(ctx, id, []Node{asked(n), {Name: "x", ProviderID: "://\xff/../"}})
		}},
		{"CA-C74 removing a template", FailedPrecondition, func() error { return g.DeleteNodes(ctx, id, []Node{{Name: id + "/template"}}) }},
		{"CA-C74 removing more nodes of nobody than any list holds", FailedPrecondition, func() error { return g.DeleteNodes(ctx, id, many) }},
		{"CA-C72 removing a unit beyond the size", "", func() error {
			return g.DeleteNodes(ctx, id, []Node{fake(unitID(p, 0, 1<<31-1), "unregistered"), fake(unitID(p, 1<<31-1, 0), "unregistered")})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantKind(t, tc.call(), tc.kind)
			if b.patches.Load() != 0 {
				t.Error("it led to a write")
			}
		})
	}
	t.Run("reads", func(t *testing.T) {
		for _, id := range []string{"x", "MachineDeployment//", id + "/", "\xff"} {
			_, size := g.TargetSize(id)
			_, instances := g.Instances(id)
			_, template := g.TemplateNode(id)
			wantKind(t, size, NotFound)
			wantKind(t, instances, NotFound)
			wantKind(t, template, NotFound)
		}
		_, err := g.TargetSize("")
		wantKind(t, err, InvalidArgument)
	})
}
