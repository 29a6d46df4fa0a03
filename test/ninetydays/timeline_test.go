package ninetydays

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

const day = 24 * time.Hour

// timeline runs planned events in the order of their times. Its clock jumps from event to event, and nothing is computed in between.
type timeline struct {
	now    time.Time
	random *rand.Rand
	queue  queue
	last   int
}

// event is a function and the time at which it runs. Of two events at the same time, the one that was planned first runs first.
type event struct {
	at     time.Time
	number int
	happen func()
}

// at plans that a function is called at the given time.
func (t *timeline) at(when time.Time, happen func()) {
	t.last++
	heap.Push(&t.queue, event{when, t.last, happen})
}

// in plans that a function is called after the given duration.
func (t *timeline) in(while time.Duration, happen func()) { t.at(t.now.Add(while), happen) }

// often plans calls of the function happen at random times until the given time, on average perDay times a day.
func (t *timeline) often(perDay float64, until time.Time, happen func()) {
	next := t.now.Add(time.Duration(t.random.ExpFloat64() / perDay * float64(day)))
	if next.After(until) {
		return
	}
	t.at(next, func() {
		happen()
		t.often(perDay, until, happen)
	})
}

// run runs all events that are planned up to the given time.
func (t *timeline) run(end time.Time) {
	for len(t.queue) > 0 && !t.queue[0].at.After(end) {
		next := heap.Pop(&t.queue).(event)
		t.now = next.at
		next.happen()
	}
	t.now = end
}

// between returns a random duration between least and most.
func (t *timeline) between(least, most time.Duration) time.Duration {
	return least + time.Duration(t.random.Int64N(int64(most-least)))
}

// oneIn returns true at random, on average once in n calls.
func (t *timeline) oneIn(n int) bool { return t.random.IntN(n) == 0 }

// queue is a heap of events, for container/heap.
type queue []event

func (q queue) Len() int { return len(q) }

func (q queue) Less(a, b int) bool {
	if order := q[a].at.Compare(q[b].at); order != 0 {
		return order < 0
	}
	return q[a].number < q[b].number
}

func (q queue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }

func (q *queue) Push(e any) { *q = append(*q, e.(event)) }

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
