package nodegroup

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/nodegroup/model"
)

const (
	// idleAfter is after how long without a Refresh or a change another replica may have been asked meanwhile, and may have
	// written what our watch has not brought yet. It is longer than the autoscaler's time between two loops, so that an
	// autoscaler that stays with one replica costs nothing.
	idleAfter = 20 * time.Second
	// sizesDeadline bounds the read that follows; the autoscaler gives up after 5 s.
	sizesDeadline = 3 * time.Second
)

// sizes reads the objects that groups are sized by from the API server itself, when another replica may have written them.
type sizes struct {
	live      client.Reader
	clock     clock.PassiveClock
	store     *store
	freshness *freshness
	bareSets  bool

	// turn is a lock: send to take it, receive to release it. It guards resized, the groups whose size the last read changed.
	turn    chan struct{}
	resized map[string]bool
	// served is when a Refresh or a change was last asked for, in nanoseconds.
	served atomic.Int64
	// begun counts the reads; done is the number of the last one that succeeded.
	begun, done atomic.Int64
}

// connected reads the sizes for a client that has connected: a fail-over, most of all, of a client that has perhaps just ordered
// from another replica. A size without that order would be taken for a node that came, and the order would be made again
// (CA-C36, C58). When the read fails, the next Refresh and changes try again, and fail if need be.
func (s *sizes) connected(ctx context.Context) {
	if _, err := s.read(ctx); err != nil {
		s.served.Store(0)
		ctrl.LoggerFrom(ctx).V(1).Info("The sizes could not be read when a client connected", "cause", err.Error())
	}
}

// ensureFresh begins a Refresh or a change: after a pause without any the sizes are read first. It returns the ids of the
// groups of which this replica has answered with another size until now.
//
// Errors: Unavailable.
func (s *sizes) ensureFresh(ctx context.Context) (map[string]bool, error) {
	now := s.clock.Now()
	last := s.served.Load()
	// When the clock has gone back, nobody knows how long the pause was.
	if pause := now.Sub(time.Unix(0, last)); last != 0 && pause >= 0 && pause < idleAfter {
		s.served.Store(now.UnixNano())
		return nil, nil
	}
	return s.read(ctx)
}

// read reads all the objects in one list that is as new as the API server, and stores those that are newer than the watches'.
func (s *sizes) read(ctx context.Context) (map[string]bool, error) {
	asked := s.begun.Load()
	ctx, cancel := context.WithTimeout(ctx, sizesDeadline)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, model.Unavailablef(ctx.Err(), "waiting to read the sizes that other replicas have written")
	}
	defer func() { <-s.turn }()
	if s.done.Load() > asked {
		// Another caller's read began after this call: its result holds here too.
		return s.resized, nil
	}
	number := s.begun.Add(1)
	objects, err := s.list(ctx)
	if err != nil {
		return nil, model.Unavailablef(err, "reading the sizes that other replicas have written")
	}
	s.done.Store(number)
	s.served.Store(s.clock.Now().UnixNano())
	s.freshness.reached()
	adopted, resized := s.store.adoptNewer(objects)
	if adopted > 0 {
		ctrl.LoggerFrom(ctx).Info("Read what other replicas have written", "objects", adopted, "sizes", len(resized))
	}
	s.resized = resized
	return resized, nil
}

// list reads the objects. Without a resourceVersion the answer is not older than the question.
func (s *sizes) list(ctx context.Context) ([]client.Object, error) {
	lists := []client.ObjectList{&v1alpha1.MachineDeploymentList{}}
	if s.bareSets {
		lists = append(lists, &v1alpha1.MachineSetList{})
	}
	var objects []client.Object
	for _, list := range lists {
		if err := s.live.List(ctx, list); err != nil {
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
