package limiter

import "slices"

// Line is where requests wait for a place: each group has its own queue, and the groups take turns (CAPI-24: however
// many requests one group has, another waits for its own share only). The zero value is empty.
type Line[T comparable] struct {
	queues map[string][]T
	turns  []string
	length int
}

// Len is how many wait, Groups in how many groups, Of how many of one group.
func (l *Line[T]) Len() int { return l.length }

// Groups is the number of groups that wait.
func (l *Line[T]) Groups() int { return len(l.turns) }

// Of is how many of one group wait.
func (l *Line[T]) Of(group string) int { return len(l.queues[group]) }

// Push puts one at the end of its group's queue.
func (l *Line[T]) Push(group string, item T) {
	if l.queues == nil {
		l.queues = map[string][]T{}
	}
	if len(l.queues[group]) == 0 {
		l.turns = append(l.turns, group)
	}
	l.queues[group] = append(l.queues[group], item)
	l.length++
}

// Pop takes the one whose turn it is; false when nobody waits.
func (l *Line[T]) Pop() (T, bool) {
	var none T
	if len(l.turns) == 0 {
		return none, false
	}
	group := l.turns[0]
	item := l.queues[group][0]
	l.turns = l.turns[1:]
	l.cut(group, 0)
	if len(l.queues[group]) > 0 {
		l.turns = append(l.turns, group)
	}
	return item, true
}

// Remove takes out one that will not wait any longer; false when it does not wait.
func (l *Line[T]) Remove(group string, item T) bool {
	at := slices.Index(l.queues[group], item)
	if at < 0 {
		return false
	}
	l.cut(group, at)
	if len(l.queues[group]) == 0 {
		l.turns = slices.DeleteFunc(l.turns, func(g string) bool { return g == group })
	}
	return true
}

func (l *Line[T]) cut(group string, at int) {
	l.queues[group] = slices.Delete(l.queues[group], at, at+1)
	if len(l.queues[group]) == 0 {
		delete(l.queues, group)
	}
	l.length--
}
