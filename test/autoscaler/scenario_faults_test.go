package autoscaler

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/sample"
)

var (
	worlds   = flag.Uint64("worlds", sample.Or(uint64(1), 2), "the number of random worlds to test")
	oneWorld = flag.Int64("world", -1, "test only the world of this number")
	variants = flag.Int("variants", sample.Or(1, math.MaxInt), "how many variants of a scenario to test, at most")
)

// some returns the variants of a scenario that run: at most as many as the flag -variants says, the last ones in the
// order of their keys.
func some[K cmp.Ordered, V any](all map[K]V) map[K]V {
	chosen := map[K]V{}
	for i, key := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		if len(all)-i <= *variants {
			chosen[key] = all[key]
		}
	}
	return chosen
}

// In TestDroverRecoversFromRandomFaults, calls fail, arrive late, or lose their responses. drover and the client
// restart, demand and size change, and the cloud-controller-manager is slow or stops. Then all faults end.
func TestDroverRecoversFromRandomFaults(t *testing.T) {
	t.Parallel()
	for seed := range *worlds {
		if *oneWorld >= 0 {
			seed = uint64(*oneWorld)
		}
		t.Run(fmt.Sprintf("with the random seed %d, only nodes that DeleteNodes names are deleted, and the size meets the demand (CA-C114)", seed), func(t *testing.T) {
			inWorld(t, func(w *world) { w.faults(rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func (w *world) faults(random *rand.Rand) {
	w.clientOptions.NoFrequentLoops = random.IntN(2) == 0
	missing := random.IntN(9)
	w.controller.delay = delays[random.IntN(len(delays))]
	p := withThreeBusyNodes(w, pool{
		annotations: []map[string]string{nil, withOption}[random.IntN(2)],
		boot:        time.Duration(1+random.IntN(4)) * time.Minute, drain: time.Duration(random.IntN(3)) * 5 * time.Minute,
		// At random, the Machine controller replaces a server without a node either before or after the client stops waiting for
		// the node.
		join: time.Duration(10+20*random.IntN(2)) * time.Minute,
		lost: func(n int) bool { return n > 3 && n < 15 && n%9 == missing },
	})
	other := w.pool(pool{name: "b", pods: 2}, 1, 1, 8)
	// The outcomes of calls are drawn in other goroutines, so they need a random source of their own.
	outcomes := rand.New(rand.NewPCG(random.Uint64(), 11))
	w.wire.faulty(func(string, int) outcome {
		switch outcomes.IntN(60) {
		case 0, 1:
			return refused
		case 2:
			return lost
		case 3:
			return slow
		}
		return carriedOut
	})
	for range 12 {
		w.disturb(random, p, other)
		w.run(time.Duration(10+random.IntN(300)) * time.Second)
	}
	w.wire.endFaults()
	w.drovers[len(w.drovers)-1].cut.Store(false)
	w.controller.dead = false
	p.quota, p.pods, other.pods = -1, 4, 2
	w.run(time.Hour)
	w.endsAt(p, 4)
	if !w.settled(other, 2) {
		w.Errorf("the other group did not reach its size\n%s", w.describe())
	}
}

// Nodes become ready late for various reasons, in groups with and without options of their own, while demand changes. No
// call fails and only the client changes sizes, so exactly one node must be requested for each pod.
func TestOneNodeIsRequestedForEachPodDuringSlowStarts(t *testing.T) {
	t.Parallel()
	for seed := range *worlds {
		if *oneWorld >= 0 {
			seed = uint64(*oneWorld)
		}
		t.Run(fmt.Sprintf("with the random seed %d, the group never has more replicas than the largest number of pods at one time (F-47, F-48)", seed), func(t *testing.T) {
			inWorld(t, func(w *world) { w.slowStarts(rand.New(rand.NewPCG(seed, 13))) })
		})
	}
}

func (w *world) slowStarts(random *rand.Rand) {
	w.clientOptions.NoFrequentLoops = random.IntN(2) == 0
	w.controller.delay = delays[random.IntN(len(delays))]
	p := withThreeBusyNodes(w, pool{
		annotations: []map[string]string{nil, withOption}[random.IntN(2)],
		boot:        time.Duration(20+random.IntN(100)) * time.Second, settle: time.Duration(random.IntN(3)) * time.Minute,
	})
	most := p.pods
	for range 12 {
		p.pods = 1 + random.IntN(9)
		most = max(most, p.pods)
		// The outage of the cloud-controller-manager is shorter than the time after which the autoscaler gives up a node.
		w.controller.dead = random.IntN(3) == 0
		w.run(time.Duration(10+random.IntN(300)) * time.Second)
		w.controller.dead = false
		w.run(time.Duration(10+random.IntN(900)) * time.Second)
	}
	w.endsAt(p, p.pods)
	w.neverAbove(most)
}

// strategies are the update strategies of the rollouts that run during the faults.
var strategies = []*v1alpha1.MachineDeploymentStrategy{updateBy(1, 0), updateBy(0, 1), updateBy(2, 2), {Type: v1alpha1.Recreate}}

// delays are the times that a cloud-controller-manager may need for a node.
var delays = []time.Duration{time.Second, 10 * time.Second, 40 * time.Second, 3 * time.Minute}

// disturb makes one random change or fault.
func (w *world) disturb(random *rand.Rand, p, other *pool) {
	switch random.IntN(10) {
	case 0:
		p.pods = 1 + random.IntN(8)
	case 1:
		other.pods = random.IntN(6)
	case 2:
		w.resize(p, 1+random.IntN(8))
	case 3:
		w.restartClient()
	case 4:
		w.drovers[len(w.drovers)-1].end()
		w.startDrover(droverOptions{})
	case 5:
		p.quota = 3 + random.IntN(3)
	case 6:
		p.quota = -1
	case 7:
		w.roll(p, strategies[random.IntN(len(strategies))])
	case 8:
		d := w.drovers[len(w.drovers)-1]
		d.cut.Store(!d.cut.Load())
	case 9:
		w.controller.dead = !w.controller.dead
	}
}
