package autoscaler

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAGroupOfWhichNobodyKnowsWhatItsNodesWillBe(t *testing.T) {
	t.Parallel()
	t.Run("CA-C98 stays empty, harms no other, and grows once that is known", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", blind: true}, 0, 0, 5)
			other := w.pool(pool{name: "b", pods: 1}, 0, 1, 5)
			w.startDrover(droverOptions{})
			w.until(10*time.Minute, "a node of the other", func() bool { return w.settled(other, 1) })
			w.startClient()
			p.pods = 2
			w.run(20 * time.Minute)
			other.pods = 3
			w.until(10*time.Minute, "the other grows", func() bool { return w.settled(other, 3) })
			if got := w.replicas(p); got != 0 {
				t.Errorf("the size of the unknown one is %d", got)
			}
			w.reveal(p)
			w.ends(p, 2)
		})
	})
}

func TestNodesAndTheirProviderIDs(t *testing.T) {
	t.Parallel()
	for name, bears := range map[string]func(server string, age time.Duration) string{
		"CA-C43 with the region in it": func(server string, _ time.Duration) string { return "openstack://RegionOne/" + server },
		"CA-C42 that comes after ten minutes": func(server string, age time.Duration) string {
			if age < 10*time.Minute {
				return ""
			}
			return "openstack:///" + server
		},
		"CA-C42 CA-C70 that comes after an hour, long after the client has given the node up": func(server string, age time.Duration) string {
			if age < time.Hour {
				return ""
			}
			return "openstack:///" + server
		},
		"CA-C43 in capital letters": func(server string, _ time.Duration) string { return "openstack:///" + strings.ToUpper(server) },
	} {
		t.Run(name+": no healthy node is taken for one that never came", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{bears: bears})
				p.pods = 5
				w.until(10*time.Minute, "five busy nodes", func() bool { _, _, running := w.standing(p); return running == 5 })
				w.run(90 * time.Minute)
				w.ends(p, 5)
				if w.judge.gone > 0 {
					t.Errorf("%d nodes went although all are busy", w.judge.gone)
				}
			})
		})
	}
}

func TestARouteThatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	// What answers there speaks HTTP/2 and knows no such path, which looks like a method that is not implemented.
	t.Run("stops the client at Refresh, and nothing is forgotten", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := busyThree(w, pool{boot: 5 * time.Minute})
			p.pods = 5
			w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
			w.wire.faulty(func(string, int) fate { return astray })
			w.run(10 * time.Minute)
			if n := w.wire.count("NodeGroupTargetSize"); n > 0 {
				t.Errorf("the client went on: it asked for sizes %d times", n)
			}
			w.wire.sound()
			w.ends(p, 5)
			w.notBeyond(5)
		})
	})
}

func TestOneCallThatFailsForLong(t *testing.T) {
	t.Parallel()
	for method, peak := range map[string]int{
		"Refresh": 5, "NodeGroups": 7, "NodeGroupForNode": 7, "NodeGroupTargetSize": 5, "NodeGroupNodes": 5,
		"NodeGroupGetOptions": 7, "NodeGroupTemplateNodeInfo": 5, "NodeGroupDeleteNodes": 5, "NodeGroupDecreaseTargetSize": 5,
	} {
		t.Run("CA-C114 "+method+" fails while nodes come and go, and in the end size and demand agree", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{boot: 3 * time.Minute, lost: func(n int) bool { return n == 5 }})
				p.pods = 5
				w.until(time.Minute, "an order", func() bool { return w.replicas(p) == 5 })
				w.wire.faulty(func(m string, _ int) fate {
					if m == method {
						return refused
					}
					return carriedOut
				})
				w.run(20 * time.Minute)
				p.pods = 4
				w.run(20 * time.Minute)
				w.wire.sound()
				w.ends(p, 4)
				w.notBeyond(peak)
			})
		})
	}
}

func TestASlowRolloutStopsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]*v1alpha1.MachineDeploymentStrategy{
		"one less at a time": updateBy(0, 1),
		"all old ones first": {Type: v1alpha1.Recreate},
	} {
		t.Run("CA-C86 "+name+" with drains of an hour: another group grows within minutes all the while", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := busyThree(w, pool{drain: time.Hour})
				other := w.pool(pool{name: "b"}, 0, 0, 10)
				w.run(time.Minute)
				w.roll(p, strategy)
				for n := range 4 {
					w.run(12 * time.Minute)
					other.pods = n + 1
					w.until(5*time.Minute, "one more node of the other group", func() bool { return w.settled(other, n+1) })
				}
				w.until(8*time.Hour, "all nodes are new", func() bool { return w.old(p) == 0 })
				w.ends(p, 3)
			})
		})
	}
}
