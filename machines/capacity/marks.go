package capacity

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// mostLabels is the greatest number of labels of a template up to which labels are learned. A user with root rights on a node can put any
// number of labels on it.
const mostLabels = 256

// singular lists labels that describe a single node. The last one is the physical host, as OpenStack's cloud-controller-manager labels it.
var singular = []string{corev1.LabelHostname, v1alpha1.LabelOwnedBy, v1alpha1.LabelPhysicalHost, "topology.openstack.org/host-id"}

// placing lists the labels of the zone and the region that the cloud-controller-manager sets.
var placing = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
}

// isPlace reports whether a label tells where a node is: it is one of placing, or a label of a CSI driver for its volumes.
func isPlace(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.Contains(placing, key) || strings.HasPrefix(domain, "topology.")
}

// labelled is how long a node must have been Ready so that other programs have put their labels on it.
const labelled = 2 * time.Minute

// settled returns the nodes that have been Ready for a while; all nodes when none has. Otherwise each new node would take labels off the
// template until other programs have labelled it.
func settled(nodes []*corev1.Node, now time.Time) []*corev1.Node {
	old := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool {
		return now.Sub(v1alpha1.NodeReady(n).LastTransitionTime.Time) < labelled
	})
	if len(old) == 0 {
		return nodes
	}
	return old
}

// learnMarks adds to the template what all of the given nodes have and drover does not compute: labels that other programs set, and
// resources with the amount 0, such as huge pages. The autoscaler takes a node that is Ready for the template of its group. It
// finds a group without such a node similar to other groups only if its template has the same labels and resources (F-124).
func (t *resolved) learnMarks(nodes []*corev1.Node) {
	if len(nodes) == 0 {
		return
	}
	same, _ := shared(nodes)
	for _, key := range slices.Sorted(maps.Keys(same)) {
		_, known := t.Labels[key]
		if slices.Contains(singular, key) || known && !slices.Contains(t.guessed, key) || !known && len(t.Labels) >= mostLabels {
			continue
		}
		t.Labels[key] = same[key]
	}
	for name, q := range nodes[0].Status.Capacity {
		_, known := t.Capacity[name]
		if !known && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !reportsNone(n, name) }) {
			t.Capacity[name], t.Allocatable[name] = q.DeepCopy(), q.DeepCopy()
		}
	}
}

// reportsNone reports whether a node reports 0 of a resource.
func reportsNone(n *corev1.Node, name corev1.ResourceName) bool {
	q, there := n.Status.Capacity[name]
	return there && q.IsZero()
}

// shared returns the labels that all of the nodes have with the same value, and the keys of the other labels, sorted.
func shared(nodes []*corev1.Node) (same map[string]string, differing []string) {
	same = map[string]string{}
	maps.Copy(same, nodes[0].Labels)
	differ := map[string]bool{}
	for _, n := range nodes {
		for key := range n.Labels {
			if _, there := same[key]; !there {
				differ[key] = true
			}
		}
		for key, value := range same {
			if got, there := n.Labels[key]; !there || got != value {
				differ[key] = true
				delete(same, key)
			}
		}
	}
	return same, slices.Sorted(maps.Keys(differ))
}

// foreign returns copies of a neighbour's nodes with only those labels that may be learned for other groups: without the labels of the
// neighbour's own template and annotations, and without those that tell where a node is.
func foreign(neighbour *subject, nodes []*corev1.Node) []*corev1.Node {
	own := bootstrap.NodeLabels(&neighbour.template.Spec, neighbour.template.Metadata.Labels, neighbour.selector)
	maps.Copy(own, readOverride(neighbour.GetAnnotations()).labels)
	out := make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		out[i] = &corev1.Node{Status: corev1.NodeStatus{Capacity: n.Status.Capacity, Conditions: n.Status.Conditions}}
		out[i].Labels = maps.Clone(n.Labels)
		maps.DeleteFunc(out[i].Labels, func(key, _ string) bool {
			_, its := own[key]
			return its || isPlace(key)
		})
	}
	return out
}

// differences describes, for users, how the nodes of a group differ from each other and from its template in ways that the autoscaler
// sees when it looks for similar groups; empty when they do not.
func (t *resolved) differences(nodes []*corev1.Node) (texts []string) {
	if len(nodes) == 0 {
		return nil
	}
	_, differing := shared(nodes)
	for _, key := range differing {
		if !slices.Contains(singular, key) && !isPlace(key) {
			texts = append(texts, "the nodes differ in label "+key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes[0].Status.Capacity)) {
		if _, known := t.Capacity[name]; !known {
			texts = append(texts, "node "+nodes[0].Name+" has "+string(name))
		}
	}
	return texts
}
