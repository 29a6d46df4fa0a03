package catalog

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// positiveTTL is how long a found thing is cached, negativeTTL how long a missing one (CAPI-15).
	positiveTTL = 10 * time.Minute
	negativeTTL = 30 * time.Second
)

// cache holds answers of the cloud, also that a thing does not exist. It asks for each only once at a time.
type cache struct {
	clock  clock.Clock
	flight singleflight.Group

	mu      sync.Mutex
	entries map[string]cached
}

type cached struct {
	value any
	err   error
	// asked is when the question was sent that this is the answer to.
	asked, until time.Time
}

func newCache(c clock.Clock) *cache { return &cache{clock: c, entries: map[string]cached{}} }

// lookup returns the cached answer, or asks. Answers are cached: that a thing exists, does not exist or is ambiguous. A failure to ask
// is not.
func lookup[T any](c *cache, key string, ask func() (T, error)) (T, error) {
	if e, ok := c.fresh(key); ok {
		v, _ := e.value.(T)
		return v, e.err
	}
	got, err, _ := c.flight.Do(key, func() (any, error) {
		if e, ok := c.fresh(key); ok {
			return e.value, e.err
		}
		asked := c.clock.Now()
		v, err := ask()
		c.keep(key, cached{value: v, err: err, asked: asked})
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

// keep stores an answer until its time to live has passed.
func (c *cache) keep(key string, e cached) {
	ttl := positiveTTL
	if e.err != nil {
		ttl = negativeTTL
		if class := fault.Of(e.err).Class; class != fault.Invalid && class != fault.NotFound {
			return
		}
	}
	e.until = c.clock.Now().Add(ttl)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = e
}

// dropOlder drops an answer that was asked for before a time. It reports whether the next lookup asks again: false when the
// cached answer is from that time or later.
func (c *cache) dropOlder(key string, than time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if ok && !e.asked.Before(than) {
		return false
	}
	delete(c.entries, key)
	return true
}

// sweep drops the answers that are too old to be used.
func (c *cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	maps.DeleteFunc(c.entries, func(_ string, e cached) bool { return !now.Before(e.until) })
}

// drop makes the next lookups of these keys ask again.
func (c *cache) drop(keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		delete(c.entries, key)
	}
}
