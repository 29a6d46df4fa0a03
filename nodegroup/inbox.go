package nodegroup

import (
	"sync"

	"github.com/drover-project/drover/nodegroup/model/membership"
)

// inbox holds the events that are not in a snapshot yet.
type inbox struct {
	mu     sync.Mutex
	events []membership.Event
	// bell receives a value when an event arrives, unless it already holds one.
	bell chan struct{}
}

func newInbox() inbox { return inbox{bell: make(chan struct{}, 1)} }

func (b *inbox) put(e membership.Event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.bell <- struct{}{}:
	default:
	}
}

// take returns the events and empties the inbox.
func (b *inbox) take() []membership.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}
