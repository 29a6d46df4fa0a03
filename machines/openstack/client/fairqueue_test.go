package client

import (
	"slices"
	"testing"
)

func TestFairQueueServesGroupsInTurn(t *testing.T) {
	drain := func(q *FairQueue[int]) (got []int) {
		for n, ok := q.Pop(); ok; n, ok = q.Pop() {
			got = append(got, n)
		}
		return got
	}
	fill := func() *FairQueue[int] {
		q := &FairQueue[int]{}
		for n := range 4 {
			q.Push("many", n)
		}
		q.Push("few", 10)
		q.Push("few", 11)
		return q
	}
	t.Run("serves a group with few items and a group with many items alternately (CAPI-24)", func(t *testing.T) {
		q := fill()
		if !q.Remove("many", 1) || q.Remove("many", 99) || q.Len() != 5 {
			t.Fatalf("got %+v", q)
		}
		if got, want := drain(q), []int{0, 10, 2, 11, 3}; !slices.Equal(got, want) {
			t.Errorf("CAPI-24: served in the order %v, want %v", got, want)
		}
		if q.Len() != 0 || len(q.lines) != 0 || len(q.turns) != 0 {
			t.Errorf("something is left: %+v", q)
		}
	})
	t.Run("serves an item that was put back into the queue before all other items, because the item already had its turn", func(t *testing.T) {
		q := fill()
		q.Pop()
		q.Pop()
		q.PushFront("few", 10)
		if got, want := drain(q), []int{10, 1, 11, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("served in the order %v, want %v", got, want)
		}
	})
	t.Run("serves an item that was put back into the queue before all other items, even when its group has no other item", func(t *testing.T) {
		q := &FairQueue[int]{}
		q.Push("many", 1)
		q.PushFront("few", 10)
		if got, want := drain(q), []int{10, 1}; !slices.Equal(got, want) {
			t.Errorf("served in the order %v, want %v", got, want)
		}
	})
}
