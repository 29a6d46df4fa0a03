package load

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Waker receives the Machines that a driver wants reconciled, and passes them to the function that Follow has set.
// Without such a function it drops them.
type Waker struct {
	mu   sync.Mutex
	wake func(types.NamespacedName)
}

// Follow sets the function that is called with each Machine that the driver wants reconciled. nil means that no
// function is called.
func (w *Waker) Follow(wake func(types.NamespacedName)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = wake
}

// Woken passes a Machine to the function that Follow has set.
func (w *Waker) Woken(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake != nil {
		w.wake(key)
	}
}
