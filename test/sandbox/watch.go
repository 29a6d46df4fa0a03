package sandbox

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Sample calls the function look immediately, and then every 50 ms until stop is called or ctx ends. stop waits for the
// last call to return.
func Sample(ctx context.Context, look func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			look(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// UsableNodes counts the nodes that take pods (see [UsableNode]) until it is stopped.
type UsableNodes struct {
	stop func()

	mu            sync.Mutex
	fewest, looks int
}

// WatchUsableNodes starts to count the cluster's nodes that take pods.
func (s *Sandbox) WatchUsableNodes(ctx context.Context) *UsableNodes {
	u := &UsableNodes{}
	u.stop = Sample(ctx, func(ctx context.Context) {
		var nodes corev1.NodeList
		if err := s.TargetClient.List(ctx, &nodes); err == nil {
			u.see(nodes.Items)
		}
	})
	return u
}

func (u *UsableNodes) see(nodes []corev1.Node) {
	usable := 0
	for i := range nodes {
		if UsableNode(&nodes[i]) {
			usable++
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.looks == 0 || usable < u.fewest {
		u.fewest = usable
	}
	u.looks++
}

// Fewest returns the smallest number of usable nodes so far, and how often the nodes were counted.
func (u *UsableNodes) Fewest() (fewest, looks int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fewest, u.looks
}

// Stop ends the counting.
func (u *UsableNodes) Stop() { u.stop() }
