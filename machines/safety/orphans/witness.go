package orphans

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// remembered is how long a Machine that is gone is remembered at least, so that what a late order makes for it is known.
const remembered = time.Hour

// witness remembers which Machines this process has seen, and of whose end the API server told. It handles the events of an
// informer. A Machine that only is not there any more after a watch was interrupted has not ended before its eyes.
type witness struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	seen  map[types.UID]sighting
}

// sighting is how a Machine was seen last. gone is when it was not there any more; zero: it is.
type sighting struct {
	leaving bool
	gone    time.Time
}

func newWitness(c clock.PassiveClock) *witness {
	return &witness{clock: c, seen: map[types.UID]sighting{}}
}

// OnAdd sees a Machine.
func (w *witness) OnAdd(o any, _ bool) { w.see(o) }

// OnUpdate sees a Machine.
func (w *witness) OnUpdate(_, o any) { w.see(o) }

// OnDelete sees the end of a Machine.
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
	w.seen[m.GetUID()] = s
}

// sightings returns a copy of what was seen.
func (w *witness) sightings() map[types.UID]verdict.Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[types.UID]verdict.Sighting, len(w.seen))
	for uid, s := range w.seen {
		all[uid] = verdict.Sighting{Leaving: s.leaving, Exists: s.gone.IsZero()}
	}
	return all
}

// forget drops the Machines that have been gone for long and of which nothing is left.
func (w *witness) forget(s *verdict.Snapshot) {
	left := map[types.UID]bool{}
	for i := range s.Projects {
		for _, r := range s.Projects[i].Resources {
			left[r.Machine] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, seen := range w.seen {
		if !seen.gone.IsZero() && s.Now.Sub(seen.gone) > remembered && !left[uid] {
			delete(w.seen, uid)
		}
	}
}
