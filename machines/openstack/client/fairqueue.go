package client

import "slices"

// FairQueue is a queue with one line per group. The groups take turns, so that a group with many requests does not delay a group
// with few requests (CAPI-24). The zero value is empty.
type FairQueue[T comparable] struct {
	lines  map[string][]T
	turns  []string
	length int
}

// Len returns the number of waiting items.
func (q *FairQueue[T]) Len() int { return q.length }

// Push adds an item at the end of its group's line.
func (q *FairQueue[T]) Push(group string, item T) { q.insert(group, len(q.lines[group]), item) }

// PushFront adds an item at the head of its group's line and gives that group the next turn. It is for items that had a turn
// already and could not use it.
func (q *FairQueue[T]) PushFront(group string, item T) {
	q.insert(group, 0, item)
	q.endTurn(group)
	q.turns = slices.Insert(q.turns, 0, group)
}

// Pop removes and returns the next item; false when the queue is empty.
func (q *FairQueue[T]) Pop() (T, bool) {
	var none T
	if len(q.turns) == 0 {
		return none, false
	}
	group := q.turns[0]
	item := q.lines[group][0]
	q.turns = q.turns[1:]
	q.cut(group, 0)
	if len(q.lines[group]) > 0 {
		q.turns = append(q.turns, group)
	}
	return item, true
}

// Remove removes an item from its group's line; it returns false when the item does not wait there.
func (q *FairQueue[T]) Remove(group string, item T) bool {
	at := slices.Index(q.lines[group], item)
	if at < 0 {
		return false
	}
	q.cut(group, at)
	if len(q.lines[group]) == 0 {
		q.endTurn(group)
	}
	return true
}

func (q *FairQueue[T]) insert(group string, at int, item T) {
	if q.lines == nil {
		q.lines = map[string][]T{}
	}
	if len(q.lines[group]) == 0 {
		q.turns = append(q.turns, group)
	}
	q.lines[group] = slices.Insert(q.lines[group], at, item)
	q.length++
}

func (q *FairQueue[T]) cut(group string, at int) {
	q.lines[group] = slices.Delete(q.lines[group], at, at+1)
	if len(q.lines[group]) == 0 {
		delete(q.lines, group)
	}
	q.length--
}

func (q *FairQueue[T]) endTurn(group string) {
	q.turns = slices.DeleteFunc(q.turns, func(g string) bool { return g == group })
}
