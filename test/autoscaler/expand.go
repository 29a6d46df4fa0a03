package autoscaler

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// growth decides which groups grow so that pending pods can be scheduled.
type growth struct {
	view   *View
	memory *memory
	// atOnce holds the groups that scale only between zero and their maximum.
	atOnce map[string]bool
	// balance makes similar groups grow evenly. ignored holds further labels in which similar groups may differ.
	balance bool
	ignored []string
}

// way is a possible scale-up: one group, with those similar to it, that can take pending pods.
type way struct {
	group *GroupView
	// peers are the similar groups that could take the same pods.
	peers []*GroupView
	nodes int
	pods  []*corev1.Pod
	// of is the number of all pods that need a new node. pods holds the pods among them that this scale-up would take.
	of int
}

// ways returns the possible scale-ups, sorted by group name. It is empty when no pod is pending or no group can take one.
func (g growth) ways() []way {
	left := firstFit(g.view.Pending, standing(g.view, g.memory))
	if len(left) == 0 {
		return nil
	}
	var out []way
	for _, group := range sortedByID(g.view.Groups) {
		if !g.mayGrow(&group) {
			continue
		}
		w := way{group: &group, of: len(left)}
		room := group.Max - group.Target
		if g.balance && !g.atOnce[group.ID] {
			w.peers = g.like(&group, left)
		}
		for _, peer := range w.peers {
			room += peer.Max - peer.Target
		}
		if w.nodes, w.pods = pack(left, group.Template, room); len(w.pods) == 0 {
			continue
		}
		if g.atOnce[group.ID] {
			w.nodes = room
		}
		out = append(out, w)
	}
	return out
}

func (g growth) mayGrow(group *GroupView) bool {
	return group.Template != nil && group.Target < group.Max && !g.memory.backedOff(group.ID, g.view.Now)
}

// like returns the other groups with similar nodes that may grow and could take the same pods.
func (g growth) like(group *GroupView, pods []*corev1.Pod) []*GroupView {
	var out []*GroupView
	for _, other := range sortedByID(g.view.Groups) {
		if other.ID != group.ID && g.mayGrow(&other) && alike(group.Template, other.Template, g.ignored) && helpSame(group, &other, pods) {
			out = append(out, &other)
		}
	}
	return out
}

func helpSame(a, b *GroupView, pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return newBin(a.Template, nil).takes(p) != newBin(b.Template, nil).takes(p)
	})
}

// mostHelpful returns the possible scale-up that takes the most pods. Among scale-ups that take as many pods, it returns that with
// the fewest nodes, then that with the least waste, then the first. It returns nil if no scale-up is possible.
func mostHelpful(ways []way) *way {
	if len(ways) == 0 {
		return nil
	}
	best := slices.MinFunc(ways, func(a, b way) int {
		return cmp.Or(cmp.Compare(len(b.pods), len(a.pods)), cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.waste(), b.waste()))
	})
	return &best
}

// waste returns the share of the new nodes' CPU that no pod requests, plus the same share of their memory.
func (w way) waste() float64 {
	sum := 0.0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		offered := w.group.Template.Status.Allocatable[name]
		if offered.IsZero() || w.nodes == 0 {
			continue
		}
		asked := 0.0
		for _, p := range w.pods {
			q := requests(p)[name]
			asked += q.AsApproximateFloat64()
		}
		sum += 1 - asked/(offered.AsApproximateFloat64()*float64(w.nodes))
	}
	return sum
}

// cost is the price per hour of a possible scale-up: the price of one of its nodes, and the price of all its pods on nodes that fit them
// perfectly.
type cost struct{ node, pods float64 }

// cheapest returns the possible scale-up with the lowest ratio of the price of its nodes to the price of its pods on perfectly
// fitting nodes. The price of a small pod is added to both prices, so that small amounts do not distort the ratio. The ratio is
// raised when a node has more or fewer cores than suit a cluster with that number of nodes. A scale-up whose cost is unknown is
// left out: without prices no group ever grows (CA-C106).
func cheapest(ways []way, costs map[string]cost, small float64, nodes int) *way {
	var best *way
	least := math.Inf(1)
	for i := range ways {
		w := &ways[i]
		c, known := costs[w.group.ID]
		if !known {
			continue
		}
		ratio := (c.node*float64(w.nodes) + small) / (c.pods + small)
		cores := w.group.Template.Status.Capacity.Cpu().AsApproximateFloat64()
		misfit := max(cores/suitable(nodes), suitable(nodes)/cores)
		if score := ratio * (1 + (misfit-1)*(1-math.Tanh(float64(w.nodes-1)/15))); score < least {
			best, least = w, score
		}
	}
	return best
}

// suitable returns how many cores each node should have in a cluster with the given number of nodes.
func suitable(nodes int) float64 {
	cores := 1.0
	for _, upTo := range []int{2, 6, 20, 60, 200} {
		if nodes > upTo {
			cores *= 2
		}
	}
	return cores
}

// increases distributes the new nodes of a scale-up among its groups: each node is added to the smallest group, and no group
// exceeds its maximum. sizes holds the groups' current sizes.
func (w way) increases(sizes map[string]int) []Increase {
	groups := append([]*GroupView{w.group}, w.peers...)
	now := map[string]int{}
	for _, g := range groups {
		now[g.ID] = sizes[g.ID]
	}
	for range w.nodes {
		open := slices.DeleteFunc(slices.Clone(groups), func(g *GroupView) bool { return now[g.ID] >= g.Max })
		if len(open) == 0 {
			break
		}
		smallest := slices.MinFunc(open, func(a, b *GroupView) int { return cmp.Compare(now[a.ID], now[b.ID]) })
		now[smallest.ID]++
	}
	var out []Increase
	for _, g := range groups {
		if delta := now[g.ID] - sizes[g.ID]; delta > 0 {
			out = append(out, Increase{Group: g.ID, Delta: delta, Reason: fmt.Sprintf("%d of %d pending pods fit on its nodes", len(w.pods), w.of)})
		}
	}
	return out
}
