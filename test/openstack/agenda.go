package openstack

import (
	"container/heap"
	"time"
)

// agenda is what the cloud still has to do, by time. It is worked off by every call before it is answered, and by one
// goroutine that exists only while there are entries.
type agenda struct {
	entries entries
	seq     int
	running bool
	wake    chan struct{}
}

type entry struct {
	at  time.Time
	seq int
	do  func(at time.Time)
}

type entries []entry

func (e entries) Len() int { return len(e) }
func (e entries) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].seq < e[j].seq
	}
	return e[i].at.Before(e[j].at)
}
func (e entries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *entries) Push(x any)   { *e = append(*e, x.(entry)) }
func (e *entries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// plan enters do at a point in time; do runs with the lock held and learns the time it was meant for. The lock is held.
func (c *Cloud) plan(at time.Time, do func(at time.Time)) {
	c.agenda.seq++
	heap.Push(&c.agenda.entries, entry{at: at, seq: c.agenda.seq, do: do})
	if !c.agenda.running {
		c.agenda.running = true
		go c.runAgenda()
		return
	}
	select {
	case c.agenda.wake <- struct{}{}:
	default:
	}
}

// after does at once what takes no time, and enters everything else for later. The lock is held.
func (c *Cloud) after(at time.Time, d time.Duration, do func(at time.Time)) {
	if d <= 0 {
		do(at)
		return
	}
	c.plan(at.Add(d), do)
}

// advance does everything that is due. The lock is held.
func (c *Cloud) advance() {
	now := c.clock.Now()
	for len(c.agenda.entries) > 0 && !c.agenda.entries[0].at.After(now) {
		e := heap.Pop(&c.agenda.entries).(entry)
		e.do(e.at)
	}
}

func (c *Cloud) runAgenda() {
	for {
		c.mu.Lock()
		c.advance()
		if len(c.agenda.entries) == 0 {
			c.agenda.running = false
			c.mu.Unlock()
			return
		}
		next := c.agenda.entries[0].at
		c.mu.Unlock()

		timer := c.clock.NewTimer(next.Sub(c.clock.Now()))
		if !c.clock.Now().Before(next) {
			// A fake clock was stepped before the timer stood.
			timer.Stop()
			continue
		}
		select {
		case <-timer.C():
		case <-c.agenda.wake:
			timer.Stop()
		case <-c.closed:
			timer.Stop()
			return
		}
	}
}

// callbacks are what the cloud's user wants to be told, in order, by one goroutine that exists only while there are
// any.
type callbacks struct {
	queue   []func()
	running bool
}

// tell has f called without the lock. The lock is held.
func (c *Cloud) tell(f func()) {
	c.callbacks.queue = append(c.callbacks.queue, f)
	if c.callbacks.running {
		return
	}
	c.callbacks.running = true
	go c.runCallbacks()
}

func (c *Cloud) runCallbacks() {
	for {
		c.mu.Lock()
		if len(c.callbacks.queue) == 0 {
			c.callbacks.running = false
			c.mu.Unlock()
			return
		}
		f := c.callbacks.queue[0]
		c.callbacks.queue = c.callbacks.queue[1:]
		c.mu.Unlock()
		f()
	}
}
