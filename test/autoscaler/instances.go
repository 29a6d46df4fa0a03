package autoscaler

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// instancesEvery is the period at which all instance lists are read in the background.
const instancesEvery = 2 * time.Minute

// instanceCache holds the instance lists of the groups. They are up to two minutes old unless they were invalidated.
type instanceCache struct {
	clock    clock.WithTicker
	log      logr.Logger
	provider *provider

	mu    sync.Mutex
	lists map[string][]Instance
}

func newInstanceCache(c clock.WithTicker, log logr.Logger, p *provider) *instanceCache {
	return &instanceCache{clock: c, log: log, provider: p, lists: map[string][]Instance{}}
}

// get returns the list of a group, and reads the list when it is not in the cache.
func (c *instanceCache) get(ctx context.Context, group string) ([]Instance, error) {
	c.mu.Lock()
	list, ok := c.lists[group]
	c.mu.Unlock()
	if ok {
		return list, nil
	}
	list, err := c.provider.instances(ctx, group)
	if err != nil {
		return nil, err
	}
	c.put(group, list)
	return list, nil
}

func (c *instanceCache) put(group string, list []Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists[group] = list
}

func (c *instanceCache) invalidate(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lists, group)
}

func (c *instanceCache) keep(groups sets.Set[string]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.lists, func(id string, _ []Instance) bool { return !groups.Has(id) })
}

// follow reads the instance lists of all groups one after the other, first immediately and then every two minutes.
func (c *instanceCache) follow(ctx context.Context) {
	ticker := c.clock.NewTicker(instancesEvery)
	defer ticker.Stop()
	for {
		c.readAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// readAll reads the instance lists of all groups. A group whose call fails has an empty list, because cluster-autoscaler stores the empty
// response.
func (c *instanceCache) readAll(ctx context.Context) {
	groups, err := c.provider.list(ctx)
	if err != nil {
		return
	}
	for _, g := range groups {
		list, err := c.provider.instances(ctx, g.ID)
		if err != nil {
			c.log.Error(err, "Failed to list instances: the group counts as empty until the next round", "group", g.ID)
		}
		if ctx.Err() == nil {
			c.put(g.ID, list)
		}
	}
}
