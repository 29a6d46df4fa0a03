package autoscaler

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Increase is a decided scale-up.
type Increase struct {
	Group string
	Delta int
	// Reason is the cause, for the log.
	Reason string
}

// Removal is a decided scale-down of one node.
type Removal struct {
	Node  *corev1.Node
	Group string
	// Evict holds the pods to evict first.
	Evict []*corev1.Pod
	// After is how long the node must have been unneeded.
	After time.Duration
}

// Correction is the decision to lower a group's target size by Delta, because that many of its nodes never registered.
type Correction struct {
	Group string
	Delta int
}

// healthy reports whether enough nodes are ready to scale at all.
func healthy(v *View) bool {
	const tolerated, percent = 3, 45
	unready := 0
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.unready(v.Now) && !hasTaint(n.Node, TaintToBeDeleted) {
			unready++
		}
	}
	return unready <= tolerated || unready*100 <= percent*len(v.Nodes)
}

// corrections returns the groups that have had fewer nodes than their target size for longer than an instance may take to become a node.
func corrections(v *View, m *memory) []Correction {
	var out []Correction
	for i := range v.Groups {
		g := &v.Groups[i]
		gap, ok := m.incorrect[g.ID]
		if ok && v.Now.Sub(gap.since) >= g.Provision {
			out = append(out, Correction{Group: g.ID, Delta: gap.target - gap.registered})
		}
	}
	return out
}

// simulated returns the Nodes in the simulation of the scheduler. It leaves out registered Nodes that have not started, because
// upcoming nodes stand for them. Taints, not readiness, decide whether a pod fits on a Node.
func simulated(v *View, m *memory) []*NodeView {
	replaced := map[string]bool{}
	for i := range v.Groups {
		g := &v.Groups[i]
		replaced[g.ID] = m.upcoming(v, g) > 0
	}
	var out []*NodeView
	for i := range v.Nodes {
		if n := &v.Nodes[i]; !n.notStarted(v.Now) || !replaced[n.Group] {
			out = append(out, n)
		}
	}
	return out
}

// standing returns the free capacity of each existing and each upcoming Node.
func standing(v *View, m *memory) []*bin {
	var bins []*bin
	for _, n := range simulated(v, m) {
		bins = append(bins, newBin(n.Node, n.Pods))
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		if g.Template == nil {
			continue
		}
		for range m.upcoming(v, g) {
			bins = append(bins, newBin(g.Template, nil))
		}
	}
	return bins
}

func sortedByID(groups []GroupView) []GroupView {
	return slices.SortedFunc(slices.Values(groups), func(a, b GroupView) int { return cmp.Compare(a.ID, b.ID) })
}

// belowMin returns the increases that bring groups up to their minimum.
func belowMin(v *View) []Increase {
	var out []Increase
	for _, g := range sortedByID(v.Groups) {
		if g.Target < g.Min {
			out = append(out, Increase{Group: g.ID, Delta: g.Min - g.Target, Reason: "the group is below its minimum"})
		}
	}
	return out
}

// spareOf returns how many nodes of each group may be removed: the group's size, minus its minimum, minus the removals in
// progress that have not lowered the size yet.
func spareOf(v *View, sizes, inFlight map[string]int) map[string]int {
	spare := map[string]int{}
	for _, n := range v.Nodes {
		if size, known := sizes[n.Group]; known {
			spare[n.Group] = size - n.Min - inFlight[n.Group]
		}
	}
	return spare
}

// unneeded returns nodes that can be removed at the same time: their utilization is low, each of their movable pods fits on
// another node, and no pending pod is expected to run on them. Unready nodes are kept longer. No group falls below its minimum. A
// group that scales only between zero and its maximum never shrinks: cluster-autoscaler compares node groups by object identity,
// and over this protocol each response creates new objects.
func unneeded(v *View, m *memory, settings map[string]Settings, spare map[string]int) []Removal {
	bins := map[string]*bin{}
	for _, n := range simulated(v, m) {
		bins[n.Name] = newBin(n.Node, n.Pods)
	}
	awaited := awaitedBy(v.Pending, othersThan(bins, ""))
	var out []Removal
	for _, n := range byUse(v.Nodes) {
		s, known := settings[n.Name]
		if !known || bins[n.Name] == nil || s.ZeroOrMax || spare[n.Group] <= 0 || awaited[n.Name] || !mayGo(&n, s.Threshold) {
			continue
		}
		evict := movable(n.Pods)
		others := othersThan(bins, n.Name)
		if len(firstFit(evict, copies(others))) > 0 {
			continue
		}
		firstFit(evict, others)
		delete(bins, n.Name)
		spare[n.Group]--
		r := Removal{Node: n.Node, Group: n.Group, Evict: evict, After: s.UnneededTime}
		if !n.ready() {
			r.After = s.UnreadyTime
		}
		out = append(out, r)
	}
	return out
}

// awaitedBy places pending pods on nodes on which they fit, and returns the names of the nodes that received at least one pod.
func awaitedBy(pending []*corev1.Pod, bins []*bin) map[string]bool {
	out := map[string]bool{}
	for _, p := range pending {
		if i := slices.IndexFunc(bins, func(b *bin) bool { return b.takes(p) }); i >= 0 {
			bins[i].place(p)
			out[bins[i].node.Name] = true
		}
	}
	return out
}

// byUse sorts nodes by utilization, the lowest first.
func byUse(nodes []NodeView) []NodeView {
	return slices.SortedStableFunc(slices.Values(nodes), func(a, b NodeView) int {
		return cmp.Or(cmp.Compare(utilization(a), utilization(b)), cmp.Compare(a.Name, b.Name))
	})
}

func othersThan(bins map[string]*bin, name string) []*bin {
	var out []*bin
	for other, b := range bins {
		if other != name {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *bin) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return out
}

func copies(bins []*bin) []*bin {
	var out []*bin
	for _, b := range bins {
		out = append(out, &bin{node: b.node, free: b.free.DeepCopy()})
	}
	return out
}

// mayGo reports whether the utilization of a node is low enough for its removal.
func mayGo(n *NodeView, threshold float64) bool {
	if n.Group == "" || hasTaint(n.Node, TaintToBeDeleted) || slices.ContainsFunc(n.Pods, blocks) {
		return false
	}
	return n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] != "true" && utilization(*n) <= threshold
}

// utilization returns the larger of the shares of cpu and memory that the node's pods request.
func utilization(n NodeView) float64 {
	most := 0.0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		total := n.Status.Allocatable[name]
		if total.IsZero() {
			continue
		}
		used := 0.0
		for _, p := range n.Pods {
			q := requests(p)[name]
			used += q.AsApproximateFloat64()
		}
		most = max(most, used/total.AsApproximateFloat64())
	}
	return most
}

// movable returns the pods that need another node when their node is removed.
func movable(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return staysWithNode(p) || finished(p) })
}

func finished(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// staysWithNode reports whether a pod is deleted with its node: pods of a DaemonSet and mirror pods.
func staysWithNode(p *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(p)
	return mirror || owner != nil && owner.Kind == "DaemonSet"
}

// blocks reports whether a pod prevents the removal of its node: no controller would create the pod again, or an annotation forbids its
// eviction.
func blocks(p *corev1.Pod) bool {
	if staysWithNode(p) || finished(p) {
		return false
	}
	switch p.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] {
	case "true":
		return false
	case "false":
		return true
	}
	return metav1.GetControllerOf(p) == nil
}
