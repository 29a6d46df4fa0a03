package gate

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/kernel"
)

// Pace is how fast the API carries out calls of one kind.
type Pace struct {
	// Latency is how long one call takes from when the API begins it.
	Latency time.Duration
	// AtATime is how many calls of the kind the API carries out concurrently. Further calls wait in the order in which
	// they arrived. 0 means no limit.
	AtATime int
}

// Paces holds the Pace of each kind of call, by Call.Name.
type Paces struct {
	mu    sync.Mutex
	kinds map[string]*queue
}

// queue holds the waiting calls of one kind.
type queue struct {
	Pace
	inWork  int
	waiting []chan struct{}
}

// NewPaces returns the paces of kinds of calls, by Call.Name.
func NewPaces(of map[string]Pace) *Paces {
	p := &Paces{kinds: map[string]*queue{}}
	for name, pace := range of {
		p.kinds[name] = &queue{Pace: pace}
	}
	return p
}

// Begin waits for the call's turn. It returns the call's latency, and a function that must be called when the call has
// ended. It returns false when this kind of call has no pace. It returns an error when the client disconnects or the
// cloud is closed.
func (p *Paces) Begin(ctx context.Context, closed <-chan struct{}, name string) (time.Duration, func(), bool, error) {
	q, known := p.kinds[name]
	if !known {
		return 0, func() {}, false, nil
	}
	p.mu.Lock()
	if q.AtATime == 0 || q.inWork < q.AtATime {
		q.inWork++
		p.mu.Unlock()
		return q.Latency, func() { p.end(q) }, true, nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	p.mu.Unlock()
	var err error
	select {
	case <-turn:
		return q.Latency, func() { p.end(q) }, true, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-closed:
		err = kernel.ErrDropped
	}
	p.giveUp(q, turn)
	return 0, func() {}, true, err
}

// end passes the slot of a call that has ended to the call that has waited longest.
func (p *Paces) end(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(q.waiting) == 0 {
		q.inWork--
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// giveUp removes a call from the queue. If the call has just got its turn, giveUp passes the turn on.
func (p *Paces) giveUp(q *queue, turn chan struct{}) {
	p.mu.Lock()
	for i, waiting := range q.waiting {
		if waiting == turn {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			p.mu.Unlock()
			return
		}
	}
	p.mu.Unlock()
	p.end(q)
}
