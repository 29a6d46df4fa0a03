package autoscaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// zoned returns a pool whose nodes differ from those of other pools only in their zone, and whose pods run on the nodes of any
// pool.
func zoned(name, zone string) pool {
	return pool{name: name, flexible: true, labels: map[string]string{
		corev1.LabelTopologyZone: zone, "topology.cinder.csi.openstack.org/zone": zone,
	}}
}

func TestSimilarGroupsInTwoZones(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ignored []string
		quota   int
		a, b    int
		peak    int
	}{
		"two similar groups grow evenly (CA-C102)": {[]string{labelPool, "topology.cinder.csi.openstack.org/zone"}, -1, 3, 3, 6},
		"only one group grows when the labels for the CSI zone differ, because the groups are not similar then (CA-C102)":       {[]string{labelPool}, -1, 6, 0, 6},
		"when a group's quota is exhausted, a similar group grows by the nodes that the first group cannot get (CA-C102)":       {[]string{labelPool, "topology.cinder.csi.openstack.org/zone"}, 1, 1, 5, 9},
		"only one group grows when the autoscaler compares all labels, because the groups have different pool labels (CA-C102)": {nil, -1, 6, 0, 6},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.clientOptions.BalanceSimilar, w.clientOptions.BalancingIgnore = true, c.ignored
				first := zoned("a", "one")
				first.quota = c.quota
				a, b := w.pool(first, 0, 0, 10), w.pool(zoned("b", "two"), 0, 0, 10)
				w.startDrover(droverOptions{})
				w.startClient()
				w.run(time.Minute)
				a.pods = 6
				w.until(30*time.Minute, "all pods run", func() bool {
					_, _, running := w.counts(a)
					return running == 6
				})
				w.run(calm)
				if x, y := w.replicas(a), w.replicas(b); x != c.a || y != c.b {
					t.Errorf("the sizes are %d and %d, want %d and %d\n%s", x, y, c.a, c.b, w.describe())
				}
				w.neverAbove(c.peak)
			})
		})
	}
}

func TestSimilarGroupsThatHaveNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes [2]int
		a, b  int
	}{
		"grow evenly, because their nodes have no label of drover's that differs (F-124)":                   {[2]int{1, 1}, 3, 3},
		"grow as evenly as a group without nodes, because its template has the labels of the nodes (F-124)": {[2]int{1, 0}, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.clientOptions.BalanceSimilar, w.clientOptions.BalancingIgnore = true, []string{labelPool, "topology.cinder.csi.openstack.org/zone"}
				a, b := w.pool(zoned("a", "one"), c.nodes[0], c.nodes[0], 10), w.pool(zoned("b", "two"), c.nodes[1], c.nodes[1], 10)
				w.startDrover(droverOptions{})
				w.startClient()
				w.run(10 * time.Minute)
				a.pods = 6
				w.until(30*time.Minute, "all pods run", func() bool {
					_, _, running := w.counts(a)
					return running == 6
				})
				if x, y := w.replicas(a), w.replicas(b); x != c.a || y != c.b {
					t.Errorf("the sizes are %d and %d, want %d and %d\n%s", x, y, c.a, c.b, w.describe())
				}
			})
		})
	}
}

func TestANodeWithoutTheGPUThatItsLabelPromises(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		label string
		grows bool
	}{
		"does not stop other groups, because it has the label that drover reports only while it has a GPU (F-125)": {v1alpha1.LabelGPU, true},
		"would stop all groups if the label that it keeps were reported (F-125)":                                   {"accelerator", false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				lone := w.pool(pool{name: "gpu", labels: map[string]string{"accelerator": "a100"}}, 1, 1, 1)
				a := w.pool(pool{name: "a"}, 0, 0, 4)
				w.startDrover(droverOptions{gpuLabel: c.label})
				w.startClient()
				w.until(10*time.Minute, "the node", func() bool { _, nodes, _ := w.counts(lone); return nodes == 1 })
				w.run(5 * time.Minute)
				// drover reports no group for this node, as for one whose Machine is being deleted.
				w.edit(lone, func(d *v1alpha1.MachineDeployment) { d.Annotations["cluster.k8s.io/paused"] = "true" })
				w.run(time.Minute)
				a.pods = 2
				w.run(20 * time.Minute)
				if _, _, running := w.counts(a); (running == 2) != c.grows {
					t.Errorf("%d pods run, want 2: %t\n%s", running, c.grows, w.describe())
				}
			})
		})
	}
}

func TestThePriceExpanderChoosesTheCheaperGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prices map[string]string
		a, b   int
	}{
		"the cheaper group grows although its name sorts last (CA-C107)": {map[string]string{"prices.yaml": "flavors: {big: 0.5, small: 0.1}"}, 0, 2},
		"no group grows without prices (CA-C106)":                        {nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.clientOptions.PriceExpander = true
				o := droverOptions{}
				if c.prices != nil {
					o.prices = types.NamespacedName{Namespace: namespace, Name: "prices"}
					w.must(w.admin.Create(w.ctx, &corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prices"}, Data: c.prices,
					}))
				}
				flavored := func(name, flavor string) pool {
					return pool{name: name, flexible: true, labels: map[string]string{corev1.LabelInstanceTypeStable: flavor}}
				}
				a, b := w.pool(flavored("a", "big"), 0, 0, 10), w.pool(flavored("b", "small"), 0, 0, 10)
				w.startDrover(o)
				w.startClient()
				w.run(time.Minute)
				a.pods = 2
				w.run(20 * time.Minute)
				if x, y := w.replicas(a), w.replicas(b); x != c.a || y != c.b {
					t.Errorf("the sizes are %d and %d, want %d and %d\n%s", x, y, c.a, c.b, w.describe())
				}
				if asked := w.wire.count("PricingNodePrice"); asked == 0 {
					t.Error("the client did not ask for a price")
				}
			})
		})
	}
}

// zeroOrMax is the annotation that makes a group scale only between zero and its maximum.
const zeroOrMax = "cluster.k8s.io/autoscaling-options-zeroormaxnodescaling"

func TestZeroOrMaxNodeScaling(t *testing.T) {
	t.Parallel()
	t.Run("without drover's feature zero-or-max, a group with zeroormaxnodescaling scales like any other (CA-C95)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", annotations: map[string]string{zeroOrMax: "true"}}, 0, 0, 4)
			w.startDrover(droverOptions{})
			w.startClient()
			w.run(time.Minute)
			p.pods = 1
			w.endsAt(p, 1)
			w.neverAbove(1)
		})
	})
	t.Run("with drover's feature zero-or-max, a group with zeroormaxnodescaling grows to its maximum at once and never shrinks (CA-C95)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", annotations: map[string]string{zeroOrMax: "true"}}, 0, 0, 4)
			w.startDrover(droverOptions{zeroOrMax: true})
			w.startClient()
			w.run(time.Minute)
			p.pods = 1
			w.until(10*time.Minute, "a full group", func() bool { return w.replicas(p) == 4 })
			p.pods = 0
			w.run(2 * time.Hour)
			if got := w.replicas(p); got != 4 {
				t.Errorf("the size is %d, want 4", got)
			}
		})
	})
	t.Run("working nodes stay although the autoscaler asks to delete the whole group because one node is missing (CA-C95)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", lost: func(n int) bool { return n == 4 }, annotations: map[string]string{zeroOrMax: "true"}}, 0, 0, 4)
			w.startDrover(droverOptions{zeroOrMax: true})
			w.startClient()
			w.run(time.Minute)
			p.pods = 1
			w.until(10*time.Minute, "three of four nodes", func() bool { _, nodes, _ := w.counts(p); return nodes == 3 })
			w.wire.endFaults()
			w.until(30*time.Minute, "the client removes all nodes", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.run(time.Hour)
			if _, nodes, running := w.counts(p); w.checker.deletedNodes != 0 || nodes != 3 || running != 1 || w.replicas(p) != 3 {
				t.Errorf("%d nodes were deleted, %d exist, %d pods run, the size is %d; want 0, 3, 1 and 3", w.checker.deletedNodes, nodes, running, w.replicas(p))
			}
		})
	})
}
