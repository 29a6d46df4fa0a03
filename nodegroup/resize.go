package nodegroup

import (
	"context"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// IncreaseSize adds delta to the group's size on the API server, in one conditional write.
//
// Errors: InvalidArgument when delta is not positive; NotFound; FailedPrecondition when the size would be above the maximum,
// or the group is paused, frozen or being deleted (nothing changed); Unavailable (CA-C56 … C64).
func (g *Groups) IncreaseSize(ctx context.Context, id string, delta int32) error {
	if delta <= 0 {
		return model.Refusef(model.InvalidArgument, "increasing %s by %d: the delta must be positive", id, delta)
	}
	return g.writer.resize(ctx, id, request{reason: "IncreasedSize", grows: true, decide: func(_ *model.Snapshot, g *model.Group) (model.Change, error) {
		return model.Increase(g, delta)
	}})
}

// DeleteNodes removes exactly the Machines of the given nodes and lowers the size by their number, in one conditional write: all
// of them or none. A node whose removal was requested before changes nothing.
//
// Errors: InvalidArgument when nodes is empty; NotFound; FailedPrecondition for a node that is in another group or in none,
// for a node that has registered meanwhile, and for a working node at the minimum (nothing changed); ResourceExhausted when
// the list of removals is full; Unavailable (CA-C65 … C82).
func (g *Groups) DeleteNodes(ctx context.Context, id string, nodes []membership.Node) error {
	if len(nodes) == 0 {
		return model.Refusef(model.InvalidArgument, "removing from %s: the request names no node", id)
	}
	for _, n := range nodes {
		if n.Name == "" && n.ProviderID == "" {
			return model.Refusef(model.InvalidArgument, "removing from %s: a node in the request has neither name nor provider ID", id)
		}
	}
	const reason = "RemovedNodes"
	live, err := g.live.read(ctx, g.store.current().Snapshot, nodes)
	if err != nil {
		g.metrics.failed(reason, err)
		return err
	}
	return g.writer.resize(ctx, id, request{reason: reason, decide: func(s *model.Snapshot, g *model.Group) (model.Change, error) {
		return model.Remove(s, g, nodes, live)
	}})
}

// DecreaseTargetSize lowers the size by up to -delta replicas that have no node: replicas without a Machine, and Machines without
// a node. It never removes a registered node, and lowers the size by less when there are fewer such replicas (CA-C83 … C89).
//
// Errors: InvalidArgument when delta is not negative; NotFound; Unavailable.
func (g *Groups) DecreaseTargetSize(ctx context.Context, id string, delta int32) error {
	if delta >= 0 {
		return model.Refusef(model.InvalidArgument, "decreasing %s by %d: the delta must be negative", id, delta)
	}
	return g.writer.resize(ctx, id, request{reason: "DecreasedSize", decide: func(_ *model.Snapshot, g *model.Group) (model.Change, error) {
		return model.Decrease(g, delta), nil
	}})
}
