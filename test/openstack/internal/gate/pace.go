package gate

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/test/openstack/internal/kernel"
)

// Pace is how fast the API carries out one kind of call.
type Pace struct {
	// Latency is how long one call takes, from when it is begun.
	Latency time.Duration
	// AtATime is how many calls of the kind are in work at a time; later ones wait for their turn, in the order in which
	// they arrived. 0: all of them.
	AtATime int
}

// Paces hold the Pace of each kind of call, by Call.Name.
type Paces struct {
	mu    sync.Mutex
	kinds map[string]*queue
}

// queue is the line of one kind of call.
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

// Begin waits for the call's turn. It returns the call's latency, and what must be called once the call has ended; false
// when no pace is set for this kind of call. Error: the client went away or the cloud was closed.
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

// end hands the place of a call that has ended to the one that waits longest.
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

// giveUp takes a call out of the line, or passes its turn on when that came in the same moment.
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
