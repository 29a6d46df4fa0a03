package model

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/backoff"
)

// limitGrowth determines the maximum that the autoscaler receives. While the joins of the group fail, it is the size, or the size that
// one Machine more than have joined needs, because that Machine shows whether servers join again. Each further order would make the
// autoscaler wait longer for all orders of the group, while another group could take the pods (F-92). In a group that scales only
// between zero and its maximum there is no further order.
//
// Two other kinds of replicas count as failed joins: Machines whose node has not started long after the join timeout, because with
// annotations an author can prevent that drover records the failure, and replicas whose Machine the set cannot create.
func (s *Snapshot) limitGrowth(g *Group) {
	g.Most = g.Max
	if g.Options.zeroOrMax != nil && *g.Options.zeroOrMax {
		return
	}
	joined, failed := 0, 0
	if g.Newest != nil && apimeta.IsStatusConditionTrue(g.Newest.Status.Conditions, v1alpha1.ConditionReplicaFailure) {
		failed = int(g.Gap)
	}
	for _, m := range g.Members {
		switch due := m.Machine.CreationTimestamp.Add(s.rules.JoinTimeout + RepairTime); {
		case !g.Counts(m):
		case m.Node != nil && !m.Starting():
			joined++
		case s.rules.JoinTimeout == 0:
		case s.now.Before(due):
			g.recheckAt(due)
		default:
			failed++
		}
	}
	if backoff.JoinsFail(g.Owner.Object, failed, joined) {
		g.Most = min(g.Max, max(g.Target, int32(joined)+1, g.Min))
	}
}
