// Package kernel holds what the services of one cloud share: the only lock over their state, the clock with the agenda,
// callbacks, and the source of IDs. It has no notion of resources.
//
// Handlers and methods of services run inside [Kernel.Do] or [Kernel.Hold], and do not lock themselves.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Kernel is what the services of one cloud share: the lock over all state, the clock, the agenda, and the source of IDs.
type Kernel struct {
	clock  clock.WithTicker
	random io.Reader

	mu        sync.Mutex
	agenda    agenda
	callbacks callbacks

	closed chan struct{}
	once   sync.Once
}

// New returns the kernel of a cloud whose time is read from c and whose IDs are drawn from random.
func New(c clock.WithTicker, random io.Reader) *Kernel {
	return &Kernel{clock: c, random: random, agenda: agenda{wake: make(chan struct{}, 1)}, closed: make(chan struct{})}
}

// Do runs the due entries of the agenda, and then f, with the lock held.
func (k *Kernel) Do(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.advance()
	f()
}

// Hold runs f with the lock held. It does not run due entries of the agenda.
func (k *Kernel) Hold(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

// Now returns the time on the cloud's clock.
func (k *Kernel) Now() time.Time { return k.clock.Now() }

// Done returns a channel that is closed when the cloud is closed.
func (k *Kernel) Done() <-chan struct{} { return k.closed }

// Close stops the agenda, ends all waiting, and then calls its argument. A second call does nothing.
func (k *Kernel) Close(and func()) {
	k.once.Do(func() {
		close(k.closed)
		and()
	})
}

// NewID returns a new UUID. The caller holds the lock, except while the initial contents of the cloud are created.
func (k *Kernel) NewID() string {
	var id [16]byte
	_, _ = io.ReadFull(k.random, id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// OrNew returns id, or a new ID when id is empty.
func (k *Kernel) OrNew(id string) string {
	if id == "" {
		return k.NewID()
	}
	return id
}

// Since returns the time that has passed since t on the cloud's clock.
func (k *Kernel) Since(t time.Time) time.Duration { return k.clock.Since(t) }

// Wait blocks for d on the cloud's clock. It returns an error when the client disconnects or the cloud is closed.
func (k *Kernel) Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := k.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-k.closed:
		return ErrDropped
	}
}

// Hang waits until the client disconnects or the cloud is closed.
func (k *Kernel) Hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-k.closed:
		return ErrDropped
	}
}

// ErrDropped is the error for a connection that must be closed without an answer.
var ErrDropped = errors.New("connection reset by the simulated cloud")
