package load

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Waker passes the Machines that a driver wakes to the current follower. The zero value drops them.
type Waker struct {
	mu   sync.Mutex
	wake func(types.NamespacedName)
}

// Follow sets what is called with the Machines that are woken; nil: nothing is.
func (w *Waker) Follow(wake func(types.NamespacedName)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = wake
}

// Woken hands on a Machine.
func (w *Waker) Woken(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake != nil {
		w.wake(key)
	}
}
