package kernel

import (
	"container/heap"
	"time"
)

// agenda holds the future actions of the cloud, by time. Every call carries out the actions that are due before it is answered. Between
// calls, one goroutine carries them out; it exists only while there are actions.
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

// Plan adds an action to the agenda: the function do is called at the given time, with the lock held, and receives that
// time. The caller of Plan holds the lock.
func (k *Kernel) Plan(at time.Time, do func(at time.Time)) {
	k.agenda.seq++
	heap.Push(&k.agenda.entries, entry{at: at, seq: k.agenda.seq, do: do})
	if !k.agenda.running {
		k.agenda.running = true
		go k.runAgenda()
		return
	}
	select {
	case k.agenda.wake <- struct{}{}:
	default:
	}
}

// After calls the function do as soon as the duration d has passed since the time at. When d is 0, it calls do
// immediately. The caller holds the lock.
func (k *Kernel) After(at time.Time, d time.Duration, do func(at time.Time)) {
	if d <= 0 {
		do(at)
		return
	}
	k.Plan(at.Add(d), do)
}

// advance runs all entries that are due. The caller holds the lock.
func (k *Kernel) advance() {
	now := k.clock.Now()
	for len(k.agenda.entries) > 0 && !k.agenda.entries[0].at.After(now) {
		e := heap.Pop(&k.agenda.entries).(entry)
		e.do(e.at)
	}
}

func (k *Kernel) runAgenda() {
	for {
		k.mu.Lock()
		k.advance()
		if len(k.agenda.entries) == 0 {
			k.agenda.running = false
			k.mu.Unlock()
			return
		}
		next := k.agenda.entries[0].at
		k.mu.Unlock()

		timer := k.clock.NewTimer(next.Sub(k.clock.Now()))
		if !k.clock.Now().Before(next) {
			// The entry became due before the timer was set, because a test stepped the fake clock meanwhile.
			timer.Stop()
			continue
		}
		select {
		case <-timer.C():
		case <-k.agenda.wake:
			timer.Stop()
		case <-k.closed:
			timer.Stop()
			return
		}
	}
}

// callbacks holds the calls of functions that the user of the cloud has registered. One goroutine makes these calls in
// order. The goroutine exists only while there are calls.
type callbacks struct {
	queue   []func()
	running bool
}

// Tell calls f later, without the lock. The caller of Tell holds the lock.
func (k *Kernel) Tell(f func()) {
	k.callbacks.queue = append(k.callbacks.queue, f)
	if k.callbacks.running {
		return
	}
	k.callbacks.running = true
	go k.runCallbacks()
}

func (k *Kernel) runCallbacks() {
	for {
		k.mu.Lock()
		if len(k.callbacks.queue) == 0 {
			k.callbacks.running = false
			k.mu.Unlock()
			return
		}
		f := k.callbacks.queue[0]
		k.callbacks.queue = k.callbacks.queue[1:]
		k.mu.Unlock()
		f()
	}
}
