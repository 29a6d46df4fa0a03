package ninetydays

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

const day = 24 * time.Hour

// timeline runs planned events in the order of their times. Nothing is computed between two events.
type timeline struct {
	now    time.Time
	random *rand.Rand
	queue  queue
	last   int
}

// event is a function that is called at a time. Of two events at the same time, the one that was planned first runs
// first.
type event struct {
	at     time.Time
	number int
	happen func()
}

// at plans an event at a time.
func (t *timeline) at(when time.Time, happen func()) {
	t.last++
	heap.Push(&t.queue, event{when, t.last, happen})
}

// in plans an event after a while.
func (t *timeline) in(while time.Duration, happen func()) { t.at(t.now.Add(while), happen) }

// often plans calls of happen at random times until a time, perDay times a day on average.
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

// run makes time pass until the given time.
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

// oneIn returns true once in n calls, at random.
func (t *timeline) oneIn(n int) bool { return t.random.IntN(n) == 0 }

// queue is a heap of events.
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
