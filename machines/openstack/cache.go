package openstack

import (
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// positiveTTL is how long a found thing is believed, negativeTTL how long a missing one (CAPI-15).
	positiveTTL = 10 * time.Minute
	negativeTTL = 30 * time.Second
)

// cache keeps answers of the cloud, good and bad, and asks for each only once at a time.
type cache struct {
	clock  clock.Clock
	flight singleflight.Group

	mu      sync.Mutex
	entries map[string]cached
}

type cached struct {
	value any
	err   error
	until time.Time
}

func newCache(c clock.Clock) *cache { return &cache{clock: c, entries: map[string]cached{}} }

// lookup gives the kept answer, or asks. Only answers are kept: that a thing is there, or that it is not or is ambiguous;
// a failure to ask is not.
func lookup[T any](c *cache, key string, ask func() (T, error)) (T, error) {
	if e, ok := c.fresh(key); ok {
		v, _ := e.value.(T)
		return v, e.err
	}
	got, err, _ := c.flight.Do(key, func() (any, error) {
		if e, ok := c.fresh(key); ok {
			return e.value, e.err
		}
		v, err := ask()
		c.keep(key, v, err)
		return v, err
	})
	v, _ := got.(T)
	return v, err
}

func (c *cache) fresh(key string) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if ok && !c.clock.Now().Before(e.until) {
		delete(c.entries, key)
		return cached{}, false
	}
	return e, ok
}

func (c *cache) keep(key string, v any, err error) {
	ttl := positiveTTL
	if err != nil {
		ttl = negativeTTL
		if class := fault.Of(err).Class; class != fault.Invalid && class != fault.NotFound {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = cached{value: v, err: err, until: c.clock.Now().Add(ttl)}
}

// forget drops an answer that turned out to be wrong.
func (c *cache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}
