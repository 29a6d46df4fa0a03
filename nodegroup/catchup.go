package nodegroup

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

const (
	// idleAfter is after how long without a Refresh or a change this replica counts as one that was not asked: another may
	// have written meanwhile, and a watch of ours may not have brought it yet. Longer than the autoscaler's time between two
	// loops, so that one that stays with a replica costs nothing.
	idleAfter = 20 * time.Second
	// catchUpDeadline bounds the read that follows; the autoscaler gives up after 5 s.
	catchUpDeadline = 3 * time.Second
)

// catchUp is the state of reading what other replicas may have written.
type catchUp struct {
	// turn is held by whoever reads. moved is what the last reading gave; whoever holds the turn may look at it.
	turn  chan struct{}
	moved map[string]bool
	// served is when a Refresh or a change was last asked for, in nanoseconds.
	served atomic.Int64
	// begun counts the readings, read is the number of the last that succeeded.
	begun, read atomic.Int64
}

// Connected tells that a client has connected: a fail-over, most of all, whose client has perhaps ordered from another
// replica a moment ago. Before its first call is answered the sizes are read from the API server itself, once: a size
// without that order would be taken for a node that came, and the order given again (CA-C36, C58). When they cannot be
// read, Refresh and changes try again, and fail if need be.
func (g *Groups) Connected(ctx context.Context) {
	if _, err := g.catchUpNow(ctx); err != nil {
		g.catching.served.Store(0)
		ctrl.LoggerFrom(ctx).V(1).Info("the sizes could not be read when a client connected", "cause", err.Error())
	}
}

// attend is the beginning of a Refresh or a change: after a pause without any the sizes are read from the API server first.
// It gives the ids of the groups of which this replica has told another size until now.
//
// Errors: Unavailable.
func (g *Groups) attend(ctx context.Context) (map[string]bool, error) {
	now := g.clock.Now()
	last := g.catching.served.Load()
	// A clock that went back says nothing of how long that is.
	if pause := now.Sub(time.Unix(0, last)); last != 0 && pause >= 0 && pause < idleAfter {
		g.catching.served.Store(now.UnixNano())
		return nil, nil
	}
	return g.catchUpNow(ctx)
}

// catchUpNow reads the objects of all groups, in one list that is as new as the API server, and lays those over the
// snapshot that the watches have not brought yet.
func (g *Groups) catchUpNow(ctx context.Context) (map[string]bool, error) {
	asked := g.catching.begun.Load()
	ctx, cancel := context.WithTimeout(ctx, catchUpDeadline)
	defer cancel()
	select {
	case g.catching.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, unavailable(ctx.Err(), "waiting to read the sizes that other replicas have written")
	}
	defer func() { <-g.catching.turn }()
	if g.catching.read.Load() > asked {
		// Somebody has read since, who began after we asked: what was told before holds for us too.
		return g.catching.moved, nil
	}
	number := g.catching.begun.Add(1)
	objects, err := g.listLive(ctx)
	if err != nil {
		return nil, unavailable(err, "reading the sizes that other replicas have written")
	}
	g.catching.read.Store(number)
	g.catching.served.Store(g.clock.Now().UnixNano())
	g.contact.made(g.clock.Now())
	g.catching.moved = g.adoptNewer(ctx, objects)
	return g.catching.moved, nil
}

// listLive reads the objects that groups are sized by from the API server. Without a resourceVersion the answer is not
// older than the question.
func (g *Groups) listLive(ctx context.Context) ([]client.Object, error) {
	lists := []client.ObjectList{&v1alpha1.MachineDeploymentList{}}
	if g.options.Discovery.BareSets {
		lists = append(lists, &v1alpha1.MachineSetList{})
	}
	var objects []client.Object
	for _, list := range lists {
		if err := g.live.List(ctx, list); err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			if object, ok := o.(client.Object); ok {
				objects = append(objects, object)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// adoptNewer lays those of the objects over the snapshot of which it has an older version, and gives the ids of the groups
// whose size that changes. What it has not at all is left to the watch: nobody was told of it.
func (g *Groups) adoptNewer(ctx context.Context, objects []client.Object) map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var events []event
	told := map[string]int32{}
	for _, object := range objects {
		o := ownerOf(object)
		known := g.model.groups[o.id]
		if known == nil || !newer(object, known.owner) {
			continue
		}
		g.own[o.id] = written{object, g.clock.Now()}
		events = append(events, event{object: object})
		told[o.id] = known.target
	}
	if len(events) == 0 {
		return nil
	}
	// What does not add up is told by the next Refresh, which comes to the same.
	_ = g.advance(events, false)
	moved := map[string]bool{}
	for id, size := range told {
		if now := g.model.groups[id]; now != nil && now.target != size {
			moved[id] = true
		}
	}
	ctrl.LoggerFrom(ctx).Info("read what other replicas have written", "objects", len(events), "sizes", len(moved))
	return moved
}
