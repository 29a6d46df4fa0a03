package autoscaler

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

var (
	worlds   = flag.Uint64("worlds", 2, "how many worlds with faults of all kinds are tried")
	oneWorld = flag.Int64("world", -1, "try this one alone")
)

// Calls fail, are late, or are carried out without an answer; either side starts anew; demand and size change; the
// cloud-controller-manager is slow and dies. Then all of it stops.
func TestFaultsOfAllKinds(t *testing.T) {
	t.Parallel()
	for seed := range *worlds {
		if *oneWorld >= 0 {
			seed = uint64(*oneWorld)
		}
		t.Run(fmt.Sprintf("CA-C114 world %d: no busy node goes unnamed, and in the end size and demand agree", seed), func(t *testing.T) {
			inWorld(t, func(w *world) { w.faults(rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func (w *world) faults(random *rand.Rand) {
	w.clientOptions.NoFrequentLoops = random.IntN(2) == 0
	missing := random.IntN(9)
	w.controller.delay = delays[random.IntN(len(delays))]
	p := busyThree(w, pool{
		annotations: []map[string]string{nil, withOption}[random.IntN(2)],
		boot:        time.Duration(1+random.IntN(4)) * time.Minute, drain: time.Duration(random.IntN(3)) * 5 * time.Minute,
		// Replaced before the client gives it up, or after.
		join: time.Duration(10+20*random.IntN(2)) * time.Minute,
		lost: func(n int) bool { return n > 3 && n < 15 && n%9 == missing },
	})
	other := w.pool(pool{name: "b", pods: 2}, 1, 1, 8)
	// What becomes of calls is thrown with dice of its own: calls come from other goroutines.
	dice := rand.New(rand.NewPCG(random.Uint64(), 11))
	w.wire.faulty(func(string, int) fate {
		switch dice.IntN(60) {
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
	w.wire.sound()
	w.drovers[len(w.drovers)-1].cut.Store(false)
	w.controller.dead = false
	p.quota, p.pods, other.pods = -1, 4, 2
	w.run(time.Hour)
	w.ends(p, 4)
	if !w.settled(other, 2) {
		w.Errorf("the other group is not at its size\n%s", w.describe())
	}
}

// Nodes start slowly for any reason, in groups with and without options of their own, while demand changes. No call fails
// and nobody else changes anything, so that each pod must be ordered for once.
func TestSlowStartsOfAllKinds(t *testing.T) {
	t.Parallel()
	for seed := range *worlds {
		if *oneWorld >= 0 {
			seed = uint64(*oneWorld)
		}
		t.Run(fmt.Sprintf("world %d: the size never exceeds what the pods needed (F-47, F-48)", seed), func(t *testing.T) {
			inWorld(t, func(w *world) { w.slowStarts(rand.New(rand.NewPCG(seed, 13))) })
		})
	}
}

func (w *world) slowStarts(random *rand.Rand) {
	w.clientOptions.NoFrequentLoops = random.IntN(2) == 0
	w.controller.delay = delays[random.IntN(len(delays))]
	p := busyThree(w, pool{
		annotations: []map[string]string{nil, withOption}[random.IntN(2)],
		boot:        time.Duration(20+random.IntN(100)) * time.Second, settle: time.Duration(random.IntN(3)) * time.Minute,
	})
	most := p.pods
	for range 12 {
		p.pods = 1 + random.IntN(9)
		most = max(most, p.pods)
		// Shorter than the time after which the autoscaler gives a node up.
		w.controller.dead = random.IntN(3) == 0
		w.run(time.Duration(10+random.IntN(300)) * time.Second)
		w.controller.dead = false
		w.run(time.Duration(10+random.IntN(900)) * time.Second)
	}
	w.ends(p, p.pods)
	w.notBeyond(most)
}

// strategies are those by which a template may be changed while there is trouble.
var strategies = []*v1alpha1.MachineDeploymentStrategy{updateBy(1, 0), updateBy(0, 1), updateBy(2, 2), {Type: v1alpha1.Recreate}}

// delays are how long a cloud-controller-manager may need for a node.
var delays = []time.Duration{time.Second, 10 * time.Second, 40 * time.Second, 3 * time.Minute}

// disturb is one thing that somebody does, or that breaks.
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
