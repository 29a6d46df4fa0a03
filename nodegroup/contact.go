package nodegroup

import (
	"sync/atomic"
	"time"
)

// contact remembers when the API server was last heard of.
type contact struct{ last atomic.Int64 }

func (c *contact) made(now time.Time) { c.last.Store(now.UnixNano()) }

// check refuses when the API server has been out of reach for too long: what we know may be wrong by now.
func (c *contact) check(now time.Time) error {
	away := now.Sub(time.Unix(0, c.last.Load()))
	if c.last.Load() == 0 {
		return refuse(Unavailable, "the API server has not been reached yet")
	}
	if away < staleAfter {
		return nil
	}
	return refuse(Unavailable, "the API server has been out of reach for %s", away.Truncate(time.Second))
}
