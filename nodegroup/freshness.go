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

// freshness knows whether the snapshot can be trusted: whether the API servers answer, and since when the watches are known to be
// behind them.
type freshness struct {
	// live reads the control cluster's API server, nodes that of the target cluster.
	live, nodes client.Reader
	clock       clock.PassiveClock
	store       *store
	reach       *reach.Watch
	// behind is a time in nanoseconds; 0 is never.
	behind atomic.Int64

	// mu guards what follows.
	mu sync.Mutex
	// suspects are objects of which the API server has shown a version that the watch has not brought, by kind.
	suspects map[schema.GroupVersionKind]suspect
	// round is how many times the API server was compared with the informer caches.
	round int
}

// suspect is a version of an object as the API server has it, and when it was read; no object when that read found none.
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

// reached notes that the API server of the control cluster has just answered.
func (f *freshness) reached() { f.reach.AnsweredControl() }

// check refuses when the snapshot may be wrong: an API server has been out of reach for too long, or a watch does not bring what
// it has.
//
// Errors: Unavailable.
func (f *freshness) check() error {
	if away := f.reach.Away(); away != "" {
		return model.Refusef(model.Unavailable, "%s", away)
	}
	if behind := f.since(&f.behind); behind >= staleAfter {
		return model.Refusef(model.Unavailable, "what the API server has is not what its watches have brought for %s", behind.Truncate(time.Second))
	}
	return nil
}

// checkLeader refuses when no replica would carry out an increase.
//
// Errors: Unavailable.
func (f *freshness) checkLeader() error {
	if away := f.reach.Leaderless(); away >= leaderlessAfter {
		return model.Refusef(model.Unavailable, "no replica of drover has held the lease for %s: nobody would make the machines", away.Truncate(time.Second))
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

// probe makes one read, to find out whether the watches bring what the API server has.
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
		ctrl.LoggerFrom(ctx).V(1).Info("A watch has not brought yet what the API server has")
	}
}

// sample reads one object from the API server, of another kind each time, and returns the oldest time at which one was read
// whose version the watch has not brought since; zero for none. When a Machine names a Node that is there and has not come,
// the watch of Nodes is behind. The caller holds mu.
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
			// It may have been deleted meanwhile, which no watch has to bring that never brought it.
			s.object = f.read(ctx, k, s.object)
		}
		// The watch may have brought it during the read.
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
