package orphans

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

const (
	// remembered is how long a Machine is remembered after it is gone. Resources that are found later, for example in a
	// project that could not be listed for a while, are then recognized as belonging to this cluster. mostRemembered bounds
	// the number of Machines that are remembered although they are gone.
	remembered     = 30 * 24 * time.Hour
	mostRemembered = 100_000
	// sweepPeriod is the interval at which Machines that need not be remembered any more are dropped.
	sweepPeriod = time.Hour
)

// witness remembers which Machines this process has seen, and which of them the API server has reported as deleted. It handles
// the events of an informer. A Machine that is only missing after the watch was interrupted does not count as deleted.
type witness struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	seen  map[types.UID]sighting
	// gone is the number of remembered Machines that no longer exist. left holds the Machines that still have resources. swept is
	// the time of the last sweep.
	gone  int
	left  map[types.UID]bool
	swept time.Time
}

// sighting is the last known state of a Machine. gone is when the Machine was found missing; zero means that it exists.
type sighting struct {
	leaving bool
	gone    time.Time
}

func newWitness(c clock.PassiveClock) *witness {
	return &witness{clock: c, seen: map[types.UID]sighting{}}
}

// OnAdd records a Machine.
func (w *witness) OnAdd(o any, _ bool) { w.see(o) }

// OnUpdate records a Machine.
func (w *witness) OnUpdate(_, o any) { w.see(o) }

// OnDelete records the deletion of a Machine.
func (w *witness) OnDelete(o any) {
	last, missed := o.(toolscache.DeletedFinalStateUnknown)
	if missed {
		o = last.Obj
	}
	m, ok := o.(client.Object)
	if !ok {
		return
	}
	w.set(m, sighting{leaving: !missed || m.GetDeletionTimestamp() != nil, gone: w.clock.Now()})
}

func (w *witness) see(o any) {
	if m, ok := o.(client.Object); ok {
		w.set(m, sighting{leaving: m.GetDeletionTimestamp() != nil})
	}
}

func (w *witness) set(m client.Object, s sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, known := w.seen[m.GetUID()]; known && !old.gone.IsZero() {
		w.gone--
	}
	w.seen[m.GetUID()] = s
	if s.gone.IsZero() {
		return
	}
	if w.gone++; w.gone > mostRemembered || s.gone.Sub(w.swept) > sweepPeriod {
		w.sweep(s.gone)
	}
}

// sightings returns a copy of the last known states of all Machines.
func (w *witness) sightings() map[types.UID]verdict.Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[types.UID]verdict.Sighting, len(w.seen))
	for uid, s := range w.seen {
		all[uid] = verdict.Sighting{Leaving: s.leaving, Exists: s.gone.IsZero()}
	}
	return all
}

// exists reports whether the watch shows a Machine.
func (w *witness) exists(machine types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, seen := w.seen[machine]
	return seen && s.gone.IsZero()
}

// keep records which Machines have resources left, according to the last round of a leader. These Machines are not forgotten.
func (w *witness) keep(projects []cloud.Project) {
	left := map[types.UID]bool{}
	for i := range projects {
		for _, r := range projects[i].Resources {
			left[r.Machine] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = left
}

// sweep drops the Machines that need not be remembered any more. When there are too many Machines, it drops more than
// necessary, so that it need not run again for each new Machine.
func (w *witness) sweep(now time.Time) {
	w.swept = now
	over := now.Add(-remembered)
	if w.gone > mostRemembered {
		var all []time.Time
		for _, seen := range w.seen {
			if !seen.gone.IsZero() {
				all = append(all, seen.gone)
			}
		}
		slices.SortFunc(all, time.Time.Compare)
		over = all[len(all)/10]
	}
	for uid, seen := range w.seen {
		if !seen.gone.IsZero() && !seen.gone.After(over) && !w.left[uid] {
			delete(w.seen, uid)
			w.gone--
		}
	}
}
