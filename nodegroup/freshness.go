package nodegroup

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

const (
	// staleAfter is how long the API server may be out of reach, or a watch behind it, before Refresh and writes are
	// refused (CA-C13, C113).
	staleAfter = 30 * time.Second
	// probeEvery is how often the API server is probed.
	probeEvery = 5 * time.Second
	// leaderlessAfter is how long the lease may be unheld before increases are refused.
	leaderlessAfter = time.Minute
)

// freshness knows whether the snapshot can be trusted: when the API server last answered, since when the watches are known to be
// behind it, and when the lease was last held.
type freshness struct {
	// live reads the control cluster's API server, nodes that of the target cluster.
	live, nodes client.Reader
	clock       clock.PassiveClock
	store       *store
	// lease is that of the leader; without a name there is none.
	lease types.NamespacedName
	// answered, behind and led are times in nanoseconds; 0 is never.
	answered, behind, led atomic.Int64

	// mu guards what follows.
	mu sync.Mutex
	// suspects are objects of which the API server has shown a version that the watch has not brought, by kind.
	suspects map[schema.GroupVersionKind]suspect
	// round is how many times the API server was compared with the informer caches.
	round int
	// leaseVersion is the resourceVersion of the lease that was last read.
	leaseVersion string
}

// suspect is a version of an object as the API server has it, and when it was read; no object when that read found none.
type suspect struct {
	object client.Object
	at     time.Time
}

func newFreshness(p parts, s *store) *freshness {
	return &freshness{
		live: p.live, nodes: p.nodes, clock: p.options.Clock, store: s, lease: p.options.Lease,
		suspects: map[schema.GroupVersionKind]suspect{},
	}
}

// reached notes that the API server has just answered.
func (f *freshness) reached() { f.answered.Store(f.clock.Now().UnixNano()) }

// check refuses when the snapshot may be wrong: the API server has been out of reach for too long, or a watch does not bring
// what it has.
//
// Errors: Unavailable.
func (f *freshness) check() error {
	if f.answered.Load() == 0 {
		return model.Refusef(model.Unavailable, "the API server has not been reached yet")
	}
	if away := f.since(&f.answered); away >= staleAfter {
		return model.Refusef(model.Unavailable, "the API server has been out of reach for %s", away.Truncate(time.Second))
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
	if away := f.since(&f.led); away >= leaderlessAfter {
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

// probe makes two reads: one tells whether the API server answers and who leads, the other whether the watches bring what the
// API server has.
func (f *freshness) probe(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The lease is on the same API server: where there is one, reading it is enough.
	if f.readLease(ctx) || f.live.List(ctx, &v1alpha1.MachineDeploymentList{}, client.Limit(1)) == nil {
		f.reached()
	}
	oldest := f.sample(ctx)
	_, own := f.store.latest()
	if oldest = earlier(oldest, own); oldest.IsZero() {
		f.behind.Store(0)
		return
	}
	if f.behind.Swap(oldest.UnixNano()) == 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("a watch has not brought yet what the API server has")
	}
}

// readLease reads who holds the lease, and reports whether the API server answered. A lease that has a holder and is not renewed
// counts as unheld: what counts is the change that we see, not a clock of another machine. The caller holds mu.
func (f *freshness) readLease(ctx context.Context) bool {
	if f.lease.Name == "" {
		return false
	}
	now := f.clock.Now().UnixNano()
	// From the first read on a minute passes before anything is concluded.
	f.led.CompareAndSwap(0, now)
	lease := &coordinationv1.Lease{}
	if err := f.live.Get(ctx, f.lease, lease); err != nil {
		return apierrors.IsNotFound(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && f.leaseVersion != lease.ResourceVersion {
		f.led.Store(now)
		f.leaseVersion = lease.ResourceVersion
	}
	return true
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
