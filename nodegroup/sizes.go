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
	// idleAfter limits the pause between calls. After a longer pause without a Refresh or a change, another replica may have
	// served the autoscaler and written sizes that this replica's watch has not delivered yet. idleAfter is longer than the
	// time between two loops of the autoscaler, so that an autoscaler that stays with one replica causes no reads.
	idleAfter = 20 * time.Second
	// sizesDeadline bounds the read of all sizes, because the autoscaler gives up its call after 5 s.
	sizesDeadline = 3 * time.Second
)

// sizes reads the objects that hold the groups' sizes from the API server itself, when another replica may have written them.
type sizes struct {
	live      client.Reader
	clock     clock.PassiveClock
	store     *store
	freshness *freshness
	bareSets  bool

	// turn is a lock: send to lock, receive to unlock. It guards resized, the ids of the groups whose size the last read
	// changed.
	turn    chan struct{}
	resized map[string]bool
	// served is when Refresh or a change was last called, in nanoseconds.
	served atomic.Int64
	// begun is how many reads have begun, so it is the number of the newest one. done is the number of the newest read that
	// succeeded.
	begun, done atomic.Int64
}

// connected reads the sizes for a client that has just connected. After a fail-over the client may already have ordered nodes from
// another replica. If drover answered with a size without those nodes, the client would order them again (CA-C36, C58). When the
// read fails, the next Refresh or change reads again, and fails if that read fails.
func (s *sizes) connected(ctx context.Context) {
	if _, err := s.read(ctx); err != nil {
		s.served.Store(0)
		ctrl.LoggerFrom(ctx).V(1).Info("Reading the sizes failed when a client connected", "cause", err.Error())
	}
}

// ensureFresh is called at the start of a Refresh or a change. If the last such call was idleAfter ago or longer, it reads the
// sizes from the API server. It returns the ids of the groups whose size differs from the one with which this replica has
// answered so far.
//
// Errors: Unavailable.
func (s *sizes) ensureFresh(ctx context.Context) (map[string]bool, error) {
	now := s.clock.Now()
	last := s.served.Load()
	// If the clock has been set back, the length of the pause is unknown.
	if pause := now.Sub(time.Unix(0, last)); last != 0 && pause >= 0 && pause < idleAfter {
		s.served.Store(now.UnixNano())
		return nil, nil
	}
	return s.read(ctx)
}

// read lists all objects that hold a group's size from the API server, in their newest versions, and stores those that are newer
// than in the cache.
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
		// Another caller's read began after this call, so its result is new enough for this call, too.
		return s.resized, nil
	}
	number := s.begun.Add(1)
	objects, err := s.list(ctx)
	if err != nil {
		return nil, model.Unavailablef(err, "reading the sizes that other replicas have written")
	}
	s.done.Store(number)
	s.served.Store(s.clock.Now().UnixNano())
	s.freshness.reach.AnsweredControl()
	adopted, resized := s.store.adopt(objects...)
	if adopted > 0 {
		ctrl.LoggerFrom(ctx).Info("Read the sizes that other replicas have written", "objects", adopted, "sizes", len(resized))
	}
	s.resized = resized
	return resized, nil
}

// list lists the objects that hold a group's size. Because the request has no resourceVersion, the list is not older than the
// request.
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
