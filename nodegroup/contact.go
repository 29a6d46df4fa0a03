package nodegroup

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// staleAfter is how long the API server may be out of reach, or a watch behind it, before Refresh and writes are
	// refused (CA-C13, C113).
	staleAfter = 30 * time.Second
	// probeEvery is how often the API server is asked whether it is there.
	probeEvery = 5 * time.Second
	// leaderless is how long nobody may have held the lease before orders are refused.
	leaderless = time.Minute
)

// contact remembers when the API server was last heard of, since when the watches are known to be behind it, and when the
// lease was last held. The zero value of a time means never.
type contact struct{ last, behind, led atomic.Int64 }

func (c *contact) made(now time.Time) { c.last.Store(now.UnixNano()) }

// check refuses when what we know may be wrong by now: the API server has been out of reach for too long, or a watch
// does not bring what it has.
func (c *contact) check(now time.Time) error {
	if c.last.Load() == 0 {
		return refuse(Unavailable, "the API server has not been reached yet")
	}
	if away := now.Sub(time.Unix(0, c.last.Load())); away >= staleAfter {
		return refuse(Unavailable, "the API server has been out of reach for %s", away.Truncate(time.Second))
	}
	if c.behind.Load() == 0 {
		return nil
	}
	if behind := now.Sub(time.Unix(0, c.behind.Load())); behind >= staleAfter {
		return refuse(Unavailable, "what the API server has is not what its watches have brought for %s", behind.Truncate(time.Second))
	}
	return nil
}

// checkLeader refuses when nobody would carry out an order.
func (c *contact) checkLeader(now time.Time) error {
	led := c.led.Load()
	if led == 0 {
		return nil
	}
	if away := now.Sub(time.Unix(0, led)); away >= leaderless {
		return refuse(Unavailable, "no replica of drover has held the lease for %s: nobody would make the machines", away.Truncate(time.Second))
	}
	return nil
}

// probe asks the API server whether it is there, whether the watches show what it has, and who leads.
func (g *Groups) probe(ctx context.Context) {
	tick := g.clock.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		g.probeOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (g *Groups) probeOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	// The lease is on the same API server: where there is one, reading it is all that the probe needs.
	if g.look(ctx) || g.live.List(ctx, &v1alpha1.MachineDeploymentList{}, client.Limit(1)) == nil {
		g.contact.made(g.clock.Now())
	}
	g.sample(ctx)
	g.readPrices(ctx)
}

// look reads who holds the lease, and reports whether the API server answered. A lease that somebody holds and does not renew
// is held by nobody: what counts is the change that we see, not a clock of another machine.
func (g *Groups) look(ctx context.Context) bool {
	if g.options.Lease.Name == "" {
		return false
	}
	now := g.clock.Now().UnixNano()
	// From the first look on a minute is waited before anything is concluded.
	g.contact.led.CompareAndSwap(0, now)
	lease := &coordinationv1.Lease{}
	if err := g.live.Get(ctx, g.options.Lease, lease); err != nil {
		return apierrors.IsNotFound(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" && g.lag.renewed(lease.ResourceVersion) {
		g.contact.led.Store(now)
	}
	return true
}

// lag remembers what the API server had and the watches had not.
type lag struct {
	mu      sync.Mutex
	suspect map[schema.GroupVersionKind]sighting
	turn    int
	lease   string
}

// sighting is a version of an object that was seen on the API server, and when.
type sighting struct {
	object client.Object
	at     time.Time
}

// renewed tells whether the lease has another version than the one last seen.
func (l *lag) renewed(version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.lease != version
	l.lease = version
	return changed
}

// sample reads one object from the API server, of another kind each time. When the watch has not brought that version after
// staleAfter, it is behind. So are the watches when a write of our own does not come back, and that of Nodes when a Machine
// names one that is there and has not come.
func (g *Groups) sample(ctx context.Context) {
	g.lag.mu.Lock()
	defer g.lag.mu.Unlock()
	if g.lag.suspect == nil {
		g.lag.suspect = map[schema.GroupVersionKind]sighting{}
	}
	var oldest time.Time
	kind := watched[g.lag.turn%len(watched)]
	sampled := g.anyOf(uint8(g.lag.turn / len(watched)))
	maps.DeleteFunc(g.lag.suspect, func(gvk schema.GroupVersionKind, _ sighting) bool { return sampled[gvk] == nil })
	for gvk, known := range sampled {
		s, waiting := g.lag.suspect[gvk]
		switch {
		case !waiting && gvk != kind:
			continue
		case !waiting:
			s.object, s.at = g.seenLive(ctx, gvk, known), g.clock.Now()
		case g.cached(gvk, s.object) == nil:
			// It may have gone meanwhile, which no watch has to bring that never brought it.
			s.object = g.seenLive(ctx, gvk, s.object)
		}
		if s.object == nil || !g.misses(gvk, s.object) {
			delete(g.lag.suspect, gvk)
			continue
		}
		g.lag.suspect[gvk] = s
		oldest = earlier(oldest, s.at)
	}
	g.lag.turn++
	g.mu.Lock()
	for _, w := range g.own {
		oldest = earlier(oldest, w.at)
	}
	g.mu.Unlock()
	if oldest.IsZero() {
		g.contact.behind.Store(0)
		return
	}
	if g.contact.behind.Swap(oldest.UnixNano()) == 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("a watch has not brought yet what the API server has")
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

var (
	deploymentGVK = v1alpha1.MachineDeploymentKind
	setGVK        = v1alpha1.MachineSetKind
	machineGVK    = v1alpha1.GroupVersion.WithKind("Machine")
	nodeGVK       = corev1.SchemeGroupVersion.WithKind("Node")
	// watched are the kinds of which sample reads one object, in turn.
	watched = []schema.GroupVersionKind{deploymentGVK, setGVK, machineGVK, nodeGVK}
)

// anyOf returns one object of each kind that has any, another one each turn. Of Nodes it is one that a Machine names and that has not come,
// when there is such a one.
func (g *Groups) anyOf(turn uint8) map[schema.GroupVersionKind]client.Object {
	g.mu.Lock()
	ix := g.model.index
	g.mu.Unlock()
	out := map[schema.GroupVersionKind]client.Object{}
	if d, ok := pickAt(ix.deployments, turn); ok {
		out[deploymentGVK] = d
	}
	if s, ok := pickAt(ix.sets, turn); ok {
		out[setGVK] = s
	}
	if m, ok := pickAt(ix.members, turn); ok {
		out[machineGVK] = m.machine
	}
	if j, ok := pickAt(ix.nodes, turn); ok {
		out[nodeGVK] = j.node
	}
	for _, m := range ix.members.all {
		if ix.awaitsNode(m) && m.machine.DeletionTimestamp.IsZero() {
			out[nodeGVK] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.machine.Status.NodeRef.Name}}
			break
		}
	}
	return out
}

// seenLive reads an object's metadata from the API server; nil when that fails or it is gone.
func (g *Groups) seenLive(ctx context.Context, gvk schema.GroupVersionKind, cached client.Object) client.Object {
	reader := g.live
	if gvk == nodeGVK {
		reader = g.nodes
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(gvk)
	err := reader.Get(ctx, client.ObjectKeyFromObject(cached), meta)
	if apierrors.IsNotFound(err) || err != nil {
		return nil
	}
	return meta
}

// misses tells whether what the watches have brought is older than a version of an object. Status updates of Nodes are not
// followed, and so say nothing.
func (g *Groups) misses(gvk schema.GroupVersionKind, live client.Object) bool {
	cached := g.cached(gvk, live)
	switch {
	case cached == nil:
		// What was cached and is not any more has gone. A Node that was looked for because it is not there has not.
		return gvk == nodeGVK
	case cached.GetUID() != live.GetUID():
		return false
	case gvk == nodeGVK:
		return cached.GetLabels()[v1alpha1.LabelOwnedBy] != live.GetLabels()[v1alpha1.LabelOwnedBy] ||
			cached.GetAnnotations()[v1alpha1.AnnotationNodeMachine] != live.GetAnnotations()[v1alpha1.AnnotationNodeMachine]
	}
	return newer(live, cached)
}

// cached gives what the watches have brought of an object; nil for nothing.
func (g *Groups) cached(gvk schema.GroupVersionKind, of client.Object) client.Object {
	g.mu.Lock()
	ix := g.model.index
	g.mu.Unlock()
	switch gvk {
	case deploymentGVK:
		if d := ix.deployments.get(keyOf(of)); d != nil {
			return d
		}
	case setGVK:
		if s := ix.sets.get(keyOf(of)); s != nil {
			return s
		}
	case machineGVK:
		if m := ix.members.get(string(of.GetUID())); m != nil {
			return m.machine
		}
	case nodeGVK:
		if j := ix.nodes.get(of.GetName()); j.node != nil {
			return j.node
		}
	}
	return nil
}

// pickAt gives something of a table, by turns.
func pickAt[V any](t table[V], turn uint8) (V, bool) {
	var none V
	if t.parts == nil {
		return none, false
	}
	for n := range len(t.parts) {
		for _, v := range t.parts[uint8(n)+turn] {
			return v, true
		}
	}
	return none, false
}
