package nodegroup

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/safety/reach"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

const (
	// staleAfter is how long a watch may be behind the API server before Refresh and writes are refused (CA-C13, C113).
	staleAfter = 30 * time.Second
	// probeEvery is how often the watches are compared with the API server.
	probeEvery = 5 * time.Second
	// leaderlessAfter is how long the lease may be unheld before increases are refused.
	leaderlessAfter = time.Minute
)

// freshness decides whether the snapshot can be trusted. It records whether the API servers answer, and since when the informer
// caches have lagged behind them.
type freshness struct {
	// live reads from the control cluster's API server, nodes from that of the target cluster.
	live, nodes client.Reader
	clock       clock.PassiveClock
	store       *store
	reach       *reach.Watch
	// behind is since when a watch has lagged, in Unix nanoseconds; 0 when none does.
	behind atomic.Int64

	// mu guards the fields below.
	mu sync.Mutex
	// suspects holds, by kind, an object that the API server has in a newer version than the watch has delivered.
	suspects map[schema.GroupVersionKind]suspect
	// round counts the comparisons of the informer caches with the API server.
	round int
}

// suspect is an object in the version that a live read returned, and the time of that read. object is nil when the read found
// none.
type suspect struct {
	object client.Object
	at     time.Time
}

func newFreshness(p parts, s *store) *freshness {
	return &freshness{
		live: p.live, nodes: p.nodes, clock: p.options.Clock, store: s, reach: p.options.Reach,
		suspects: map[schema.GroupVersionKind]suspect{},
	}
}

// reached records that the API server of the control cluster has just answered.
func (f *freshness) reached() { f.reach.AnsweredControl() }

// check returns an error when the snapshot may be wrong: an API server could not be reached for too long, or a watch does not
// deliver its changes.
//
// Errors: Unavailable.
func (f *freshness) check() error {
	if away := f.reach.Away(); away != "" {
		return model.Refusef(model.Unavailable, "%s", away)
	}
	if behind := f.since(&f.behind); behind >= staleAfter {
		return model.Refusef(model.Unavailable, "informer caches have lagged behind the API server for %s", behind.Truncate(time.Second))
	}
	return nil
}

// checkLeader returns an error when no replica leads, so that an increase would not be carried out.
//
// Errors: Unavailable.
func (f *freshness) checkLeader() error {
	if away := f.reach.Leaderless(); away >= leaderlessAfter {
		return model.Refusef(model.Unavailable, "no replica of drover has held the lease for %s, so no Machines would be created", away.Truncate(time.Second))
	}
	return nil
}

// since returns how long ago a time was; 0 for never.
func (f *freshness) since(when *atomic.Int64) time.Duration {
	at := when.Load()
	if at == 0 {
		return 0
	}
	return f.clock.Now().Sub(time.Unix(0, at))
}

// probe makes one live read, to find out whether the watches deliver the changes.
func (f *freshness) probe(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := f.sample(ctx)
	_, own := f.store.latest()
	if oldest = earlier(oldest, own); oldest.IsZero() {
		f.behind.Store(0)
		return
	}
	if f.behind.Swap(oldest.UnixNano()) == 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("A watch has not delivered a change that the API server has")
	}
}

// sample reads one object from the API server, of another kind each time. It returns the time of the oldest read whose version
// the watch has not delivered since; zero when there is none. When a Machine names an existing Node that the cache does not
// have, the watch of Nodes lags. The caller holds mu.
func (f *freshness) sample(ctx context.Context) (oldest time.Time) {
	kind := membership.Kinds[f.round%len(membership.Kinds)]
	snapshot, _ := f.store.latest()
	sampled := snapshot.Index.Sample(uint8(f.round / len(membership.Kinds)))
	f.round++
	maps.DeleteFunc(f.suspects, func(k schema.GroupVersionKind, _ suspect) bool { return sampled[k] == nil })
	for k, known := range sampled {
		s, waiting := f.suspects[k]
		switch {
		case !waiting && k != kind:
			continue
		case !waiting:
			s = suspect{f.read(ctx, k, known), f.clock.Now()}
		case snapshot.Index.Object(k, s.object) == nil:
			// It may have been deleted meanwhile. A watch that never delivered the object does not deliver its deletion either.
			s.object = f.read(ctx, k, s.object)
		}
		// The watch may have delivered it during the read.
		snapshot, _ = f.store.latest()
		if s.object == nil || !snapshot.Index.Misses(k, s.object) {
			delete(f.suspects, k)
			continue
		}
		f.suspects[k] = s
		oldest = earlier(oldest, s.at)
	}
	return oldest
}

// read reads an object's metadata from the API server; nil when that fails or it does not exist.
func (f *freshness) read(ctx context.Context, kind schema.GroupVersionKind, object client.Object) client.Object {
	reader := f.live
	if kind == membership.NodeKind {
		reader = f.nodes
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(kind)
	if reader.Get(ctx, client.ObjectKeyFromObject(object), meta) != nil {
		return nil
	}
	return meta
}
