package autoscaler

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAGroupWithoutATemplate(t *testing.T) {
	t.Parallel()
	t.Run("a group without a template stays empty until it has a template, and other groups grow (CA-C98)", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := w.pool(pool{name: "a", noTemplate: true}, 0, 0, 5)
			other := w.pool(pool{name: "b", pods: 1}, 0, 1, 5)
			w.startDrover(droverOptions{})
			w.until(10*time.Minute, "a node of the other group registers", func() bool { return w.settled(other, 1) })
			w.startClient()
			p.pods = 2
			w.run(20 * time.Minute)
			other.pods = 3
			w.until(10*time.Minute, "the other grows", func() bool { return w.settled(other, 3) })
			if got := w.replicas(p); got != 0 {
				t.Errorf("the group without a template has size %d, want 0", got)
			}
			w.reveal(p)
			w.endsAt(p, 2)
		})
	})
}

func TestHealthyNodesStayWhateverTheirProviderID(t *testing.T) {
	t.Parallel()
	for name, providerID := range some(map[string]func(server string, age time.Duration) string{
		"a node whose provider ID has the region stays (CA-C43)": func(server string, _ time.Duration) string { return "openstack://RegionOne/" + server },
		"a node whose provider ID is set after ten minutes stays (CA-C42)": func(server string, age time.Duration) string {
			if age < 10*time.Minute {
				return ""
			}
			return "openstack:///" + server
		},
		"a node whose provider ID is set after an hour stays although the autoscaler has given the node up (CA-C42, CA-C70)": func(server string, age time.Duration) string {
			if age < time.Hour {
				return ""
			}
			return "openstack:///" + server
		},
		"a node whose provider ID is in capital letters stays (CA-C43)": func(server string, _ time.Duration) string { return "openstack:///" + strings.ToUpper(server) },
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{providerID: providerID})
				p.pods = 5
				w.until(10*time.Minute, "five nodes are busy", func() bool { _, _, running := w.counts(p); return running == 5 })
				w.run(90 * time.Minute)
				w.endsAt(p, 5)
				if w.checker.deletedNodes > 0 {
					t.Errorf("%d nodes were deleted although all are busy", w.checker.deletedNodes)
				}
			})
		})
	}
}

func TestLoopsWhileAnotherServiceAnswersAtDroversAddress(t *testing.T) {
	t.Parallel()
	// The other service at drover's address speaks HTTP/2 and answers 404, because it does not have the path. gRPC reports
	// such an answer as Unimplemented.
	t.Run("each loop of the autoscaler ends after Refresh, and no node is requested twice once drover answers again", func(t *testing.T) {
		inWorld(t, func(w *world) {
			p := withThreeBusyNodes(w, pool{boot: 5 * time.Minute})
			p.pods = 5
			w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
			w.wire.faulty(func(string, int) outcome { return misrouted })
			w.run(10 * time.Minute)
			if n := w.wire.count("NodeGroupTargetSize"); n > 0 {
				t.Errorf("the client went on after Refresh: it asked for sizes %d times", n)
			}
			w.wire.endFaults()
			w.endsAt(p, 5)
			w.neverAbove(5)
		})
	})
}

func TestOneMethodThatFailsForLong(t *testing.T) {
	t.Parallel()
	for method, peak := range some(map[string]int{
		"Refresh": 5, "NodeGroups": 7, "NodeGroupForNode": 7, "NodeGroupTargetSize": 5, "NodeGroupNodes": 5,
		"NodeGroupGetOptions": 7, "NodeGroupTemplateNodeInfo": 5, "NodeGroupDeleteNodes": 5, "NodeGroupDecreaseTargetSize": 5,
	}) {
		t.Run("the size meets the demand after "+method+" has failed for 40 minutes during scaling (CA-C114)", func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{boot: 3 * time.Minute, lost: func(n int) bool { return n == 5 }})
				p.pods = 5
				w.until(time.Minute, "the client orders nodes", func() bool { return w.replicas(p) == 5 })
				w.wire.faulty(func(m string, _ int) outcome {
					if m == method {
						return refused
					}
					return carriedOut
				})
				w.run(20 * time.Minute)
				p.pods = 4
				w.run(20 * time.Minute)
				w.wire.endFaults()
				w.endsAt(p, 4)
				w.neverAbove(peak)
			})
		})
	}
}

func TestASlowRolloutDoesNotDelayOtherGroups(t *testing.T) {
	t.Parallel()
	for name, strategy := range some(map[string]*v1alpha1.MachineDeploymentStrategy{
		"another group grows within minutes during a rollout without surge and with drains of an hour (CA-C86)": updateBy(0, 1),
		"another group grows within minutes during a Recreate rollout with drains of an hour (CA-C86)":          {Type: v1alpha1.Recreate},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				p := withThreeBusyNodes(w, pool{drain: time.Hour})
				other := w.pool(pool{name: "b"}, 0, 0, 10)
				w.run(time.Minute)
				w.roll(p, strategy)
				for n := range 4 {
					w.run(12 * time.Minute)
					other.pods = n + 1
					w.until(5*time.Minute, "one more node of the other group", func() bool { return w.settled(other, n+1) })
				}
				w.until(8*time.Hour, "all nodes are new", func() bool { return w.old(p) == 0 })
				w.endsAt(p, 3)
			})
		})
	}
}
