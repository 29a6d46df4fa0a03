package load

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Workers reconcile keys as a controller does: one worker at a time reconciles a key. If the key is woken meanwhile, a
// worker reconciles it again.
type Workers struct {
	// Count is the number of workers.
	Count int
	// Reconcile reconciles the key once. It returns the time after which to reconcile the key again unless it is woken
	// earlier. A negative time means that the key is done.
	Reconcile func(key types.NamespacedName) (after time.Duration)
	// Follow is called before the first reconcile with the function that wakes a key, and with nil when all keys are
	// done.
	Follow func(wake func(types.NamespacedName))
}

// Run reconciles the keys until all of them are done.
func (w Workers) Run(keys []types.NamespacedName) {
	queue := workqueue.NewTypedDelayingQueue[types.NamespacedName]()
	var left, all sync.WaitGroup
	var mu sync.Mutex
	done := map[types.NamespacedName]bool{}
	w.Follow(queue.Add)
	for _, key := range keys {
		left.Add(1)
		queue.Add(key)
	}
	for range w.Count {
		all.Go(func() {
			for {
				key, down := queue.Get()
				if down {
					return
				}
				mu.Lock()
				known := done[key]
				mu.Unlock()
				if !known {
					after := w.Reconcile(key)
					if after < 0 {
						mu.Lock()
						done[key] = true
						mu.Unlock()
						left.Done()
					} else {
						queue.AddAfter(key, after)
					}
				}
				queue.Done(key)
			}
		})
	}
	left.Wait()
	w.Follow(nil)
	queue.ShutDown()
	all.Wait()
}
