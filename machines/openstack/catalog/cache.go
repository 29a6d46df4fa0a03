package catalog

import (
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/drover-project/drover/machines/fault"
)

const (
	// positiveTTL is the time for which an existing resource is cached. negativeTTL is the time for which the absence of a
	// resource is cached (CAPI-15).
	positiveTTL = 10 * time.Minute
	negativeTTL = 30 * time.Second
)

// mostCached is the number of answers that are cached. When there are more, the one that was used longest ago is dropped.
const mostCached = 10_000

// cache holds answers of the cloud, including that a resource does not exist. It makes only one request at a time for each key.
type cache struct {
	flight  singleflight.Group
	entries *utilcache.LRUExpireCache
}

type cached struct {
	value any
	err   error
}

func newCache(c clock.Clock) *cache {
	return &cache{entries: utilcache.NewLRUExpireCacheWithClock(mostCached, c)}
}

// lookup returns the cached answer, or calls ask. It caches that a resource exists, does not exist or is ambiguous, but not a
// failed request.
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
		c.keep(key, cached{value: v, err: err})
		return v, err
	})
	v, _ := got.(T)
	return v, err
}

func (c *cache) fresh(key string) (cached, bool) {
	e, ok := c.entries.Get(key)
	if !ok {
		return cached{}, false
	}
	return e.(cached), true
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
	c.entries.Add(key, e, ttl)
}

// drop removes all answers whose key begins with the prefix, so that the next lookup of each makes a request.
func (c *cache) drop(prefix string) {
	c.entries.RemoveAll(func(key any) bool { return strings.HasPrefix(key.(string), prefix) })
}
