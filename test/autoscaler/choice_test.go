package autoscaler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// zoned is a pool whose nodes differ from those of others in their place alone, and whose pods run anywhere.
func zoned(name, zone string) pool {
	return pool{name: name, flexible: true, labels: map[string]string{
		corev1.LabelTopologyZone: zone, "topology.cinder.csi.openstack.org/zone": zone,
	}}
}

func TestGroupsThatAreAlike(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ignored []string
		quota   int
		a, b    int
		peak    int
	}{
		"grow evenly":                      {[]string{labelPool, "topology.cinder.csi.openstack.org/zone"}, -1, 3, 3, 6},
		"are not alike by the zone of CSI": {[]string{labelPool}, -1, 6, 0, 6},
		"the full one leaves its share":    {[]string{labelPool, "topology.cinder.csi.openstack.org/zone"}, 1, 1, 5, 9},
		"the same when nothing is ignored": {nil, -1, 6, 0, 6},
	} {
		t.Run("CA-C102 in two zones: "+name, func(t *testing.T) {
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
					_, _, running := w.standing(a)
					return running == 6
				})
				w.run(calm)
				if x, y := w.replicas(a), w.replicas(b); x != c.a || y != c.b {
					t.Errorf("the sizes are %d and %d, want %d and %d\n%s", x, y, c.a, c.b, w.describe())
				}
				w.notBeyond(c.peak)
			})
		})
	}
}

func TestTheCheaperGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prices map[string]string
		a, b   int
	}{
		"CA-C107 grows although the other comes first by name":    {map[string]string{"prices.yaml": "flavors: {big: 0.5, small: 0.1}"}, 0, 2},
		"CA-C106 without prices nothing grows, so there are some": {nil, 0, 0},
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
					t.Error("nobody asked for a price")
				}
			})
		})
	}
}

// zeroOrMax is the annotation by which a group is either empty or full.
const zeroOrMax = "cluster.k8s.io/autoscaling-options-zeroormaxnodescaling"

func TestAGroupThatIsEitherEmptyOrFull(t *testing.T) {
	t.Parallel()
	t.Run("CA-C95 by its annotation alone it is a group as any other", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", annotations: map[string]string{zeroOrMax: "true"}}, 0, 0, 4)
			w.startDrover(droverOptions{})
			w.startClient()
			w.run(time.Minute)
			p.pods = 1
			w.ends(p, 1)
			w.notBeyond(1)
		})
	})
	t.Run("CA-C95 where drover lets it through, it fills up at once and never shrinks", func(t *testing.T) {
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
	t.Run("CA-C95 and when one machine never comes the client asks for all, and those that work stay", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", lost: func(n int) bool { return n == 4 }, annotations: map[string]string{zeroOrMax: "true"}}, 0, 0, 4)
			w.startDrover(droverOptions{zeroOrMax: true})
			w.startClient()
			w.run(time.Minute)
			p.pods = 1
			w.until(10*time.Minute, "three of four nodes", func() bool { _, nodes, _ := w.standing(p); return nodes == 3 })
			w.wire.sound()
			w.until(30*time.Minute, "a removal of all", func() bool { return w.wire.count("NodeGroupDeleteNodes") > 0 })
			w.run(time.Hour)
			if _, nodes, running := w.standing(p); w.judge.gone != 0 || nodes != 3 || running != 1 || w.replicas(p) != 3 {
				t.Errorf("%d nodes went, %d are there, %d pods run, the size is %d: want 0, 3, 1 and 3", w.judge.gone, nodes, running, w.replicas(p))
			}
		})
	})
}
