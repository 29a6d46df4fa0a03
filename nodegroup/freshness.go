package nodegroup

import (
	"context"
	"maps"
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
	// staleAfter is how long a watch may lag behind the API server before Refresh and writes are refused (CA-C13, C113).
	staleAfter = 30 * time.Second
	// probeEvery is how often the watches are compared with the API server.
	probeEvery = 5 * time.Second
	// leaderlessAfter is how long no replica may hold the lease before increases are refused.
	leaderlessAfter = time.Minute
)

// freshness decides whether the snapshot can be trusted. It records whether the API servers answer, and the time since which
// the informer caches have lagged.
type freshness struct {
	// live reads from the control cluster's API server, and nodes reads from that of the target cluster.
	live, nodes client.Reader
	clock       clock.PassiveClock
	store       *store
	reach       *reach.Watch
	// behind is when a watch began to lag, in Unix nanoseconds; 0 when no watch lags.
	behind atomic.Int64

	// Only probe uses the fields below.

	// suspects holds, by kind, an object whose newest version, or whose deletion, the watch has not delivered although a live read shows it.
	suspects map[schema.GroupVersionKind]suspect
	// said reports whether the log says that a watch lags.
	said bool
	// round counts the comparisons of the informer caches with the API server.
	round int
}

// suspect is an object as a live read returned it, and the time of the first such read. object is nil when the live read failed or
// did not find the object, unless the caches have it.
type suspect struct {
	object client.Object
	// gone reports that the API server does not have the object any more. object is then the version of the caches.
	gone bool
	at   time.Time
}

// missed reports whether an index has not got yet what the live read returned.
func (s suspect) missed(kind schema.GroupVersionKind, ix *membership.Index) bool {
	if !s.gone {
		return s.object != nil && ix.Misses(kind, s.object)
	}
	cached := ix.Object(kind, s.object)
	return cached != nil && cached.GetUID() == s.object.GetUID()
}

func newFreshness(p parts, s *store) *freshness {
	return &freshness{
		live: p.live, nodes: p.nodes, clock: p.options.Clock, store: s, reach: p.options.Reach,
		suspects: map[schema.GroupVersionKind]suspect{},
	}
}

// check returns an error when the snapshot may be wrong: an API server has not answered for too long, or a watch does not
// deliver its changes.
//
// Errors: Unavailable.
func (f *freshness) check() error {
	if away := f.reach.Away(); away != "" {
		return model.Refusef(model.Unavailable, "%s", away)
	}
	if behind := f.lag(); behind >= staleAfter {
		return model.Refusef(model.Unavailable, "informer caches have lagged behind the API server for %s", behind.Truncate(time.Second))
	}
	return nil
}

// checkLeader returns an error when no replica leads, because then no replica would create the Machines of an increase.
//
// Errors: Unavailable.
func (f *freshness) checkLeader() error {
	if away := f.reach.Leaderless(); away >= leaderlessAfter {
		return model.Refusef(model.Unavailable, "no replica of drover has held the lease for %s, so no Machines would be created", away.Truncate(time.Second))
	}
	return nil
}

// lag returns how long a watch has lagged; 0 when none lags.
func (f *freshness) lag() time.Duration {
	at := f.behind.Load()
	if at == 0 {
		return 0
	}
	return f.clock.Now().Sub(time.Unix(0, at))
}

// probe compares an object in the caches with the API server, and records whether a watch lags. It must not be called concurrently.
func (f *freshness) probe(ctx context.Context) {
	oldest := f.sample(ctx)
	_, own := f.store.latest()
	if oldest = earlier(oldest, own); oldest.IsZero() {
		f.behind.Store(0)
		f.said = false
		return
	}
	f.behind.Store(oldest.UnixNano())
	// The log has the cause before the first call is refused.
	if f.lag() >= staleAfter-probeEvery && !f.said {
		f.said = true
		ctrl.LoggerFrom(ctx).Info("A watch does not deliver changes that the API server has, so the autoscaler's calls will be refused; a proxy before the API server may buffer its answers",
			"since", oldest, "refusedAfter", staleAfter)
	}
}

// sample reads one object from the API server, of another kind each time, and compares it with the caches. When the watches have
// not yet delivered a version that was read, sample returns the time of the oldest such read; otherwise it returns zero.
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
			s = f.read(ctx, k, known)
		case snapshot.Index.Object(k, s.object) == nil:
			// The object may have been deleted since the first read. Read it again: a watch that never delivered the object does
			// not deliver its deletion either.
			first := s.at
			s = f.read(ctx, k, s.object)
			s.at = first
		}
		// The watch may have delivered the object during the read.
		snapshot, _ = f.store.latest()
		if !s.missed(k, snapshot.Index) {
			delete(f.suspects, k)
			continue
		}
		f.suspects[k] = s
		oldest = earlier(oldest, s.at)
	}
	return oldest
}

// read reads the metadata of an object from the API server. The caches have the object, or know the name of a Node that they lack.
func (f *freshness) read(ctx context.Context, kind schema.GroupVersionKind, known client.Object) suspect {
	reader, now := f.live, f.clock.Now()
	if kind == membership.NodeKind {
		reader = f.nodes
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err := reader.Get(ctx, client.ObjectKeyFromObject(known), live)
	switch {
	case client.IgnoreNotFound(err) != nil, known.GetUID() == "" && err != nil:
		return suspect{at: now}
	case known.GetUID() != "" && known.GetUID() != live.UID:
		return suspect{object: known, gone: true, at: now}
	}
	return suspect{object: live, at: now}
}
