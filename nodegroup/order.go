package nodegroup

import (
	"context"
	"sync"
)

// order is one call of IncreaseSize that waits for its write.
type order struct {
	delta int32
	// err is the outcome, once done is closed.
	err  error
	done chan struct{}
}

// orders are the calls that wait, by group. Those that have come while another write of the group was under way are written
// together: so a hundred of them cost two writes and not a hundred, and none is lost (CA-C59).
type orders struct {
	mu      sync.Mutex
	waiting map[string][]*order
}

func (q *orders) put(id string, o *order) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[string][]*order{}
	}
	q.waiting[id] = append(q.waiting[id], o)
}

// take gives all that wait, in the order in which they came.
func (q *orders) take(id string) []*order {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting[id]
	delete(q.waiting, id)
	return batch
}

// withdraw takes an order back; false when somebody is carrying it out already.
func (q *orders) withdraw(id string, o *order) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n, other := range q.waiting[id] {
		if other == o {
			q.waiting[id] = append(q.waiting[id][:n:n], q.waiting[id][n+1:]...)
			return true
		}
	}
	return false
}

// order carries out one IncreaseSize, alone or together with others of the group.
func (g *Groups) order(ctx context.Context, id string, delta int32) error {
	e, err := g.begin(ctx, id, true)
	if err != nil {
		return err
	}
	o := &order{delta: delta, done: make(chan struct{})}
	g.orders.put(id, o)
	lock := g.locks.of(id)
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		if g.orders.withdraw(id, o) {
			return unavailable(ctx.Err(), "waiting for other calls on %s, nothing was changed", id)
		}
		<-o.done
		return o.err
	case lock <- struct{}{}:
	}
	defer func() { <-lock }()
	if ctx.Err() != nil && g.orders.withdraw(id, o) {
		return unavailable(ctx.Err(), "beginning to change %s, nothing was changed", id)
	}
	if batch := g.orders.take(id); len(batch) > 0 {
		g.carryOutAll(ctx, e, batch)
	}
	<-o.done
	return o.err
}

// carryOutAll writes a batch of orders and tells each its outcome. One that does not fit below the maximum any more is
// refused by itself.
func (g *Groups) carryOutAll(ctx context.Context, e *entry, batch []*order) {
	err := error(refuse(Unavailable, "changing %s: the write has not ended", e.id))
	// Also when something panics: nobody waits for ever.
	defer func() {
		for _, o := range batch {
			if o.err == nil {
				o.err = err
			}
			close(o.done)
		}
	}()
	err = g.carryOut(ctx, e, resize{
		reason: "IncreasedSize",
		decide: func(_ *Snapshot, grp *group) (change, error) { return increaseAll(grp, batch) },
	})
}

// increaseAll adds up the orders that fit, first come, first served. When none does, the error is that of the first.
func increaseAll(g *group, batch []*order) (change, error) {
	all := change{replicas: g.target}
	var refused error
	accepted := false
	for _, o := range batch {
		var next change
		if next, o.err = increase(g, all.replicas, o.delta); o.err == nil {
			all, accepted = next, true
		} else if refused == nil {
			refused = o.err
		}
	}
	if !accepted {
		return change{}, refused
	}
	return all, nil
}
