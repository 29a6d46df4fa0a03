package load

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// Workers reconcile keys as a controller does: each key by one worker at a time, again when it is woken meanwhile.
type Workers struct {
	// Count is the number of workers.
	Count int
	// Reconcile makes one pass. It returns after which time to make another one if the key is not woken before; negative:
	// the key is done.
	Reconcile func(key types.NamespacedName) (after time.Duration)
	// Follow is called before the first pass, with what wakes a key, and once more with nil when all keys are done.
	Follow func(wake func(types.NamespacedName))
}

// Run returns when all keys are done.
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
