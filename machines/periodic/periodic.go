// Package periodic calls a check again and again. It keeps nothing: what a check has found is the caller's.
package periodic

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Run calls check until ctx ends: the first time immediately, and each further time after the pause that the last call has returned.
func Run(ctx context.Context, c clock.Clock, check func(context.Context) time.Duration) {
	for {
		timer := c.NewTimer(check(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// Every calls check until ctx ends: the first time immediately, and then each time after the pause.
func Every(ctx context.Context, c clock.Clock, pause time.Duration, check func(context.Context)) {
	Run(ctx, c, func(ctx context.Context) time.Duration {
		check(ctx)
		return pause
	})
}

// After is [Every], with a pause before the first call.
func After(ctx context.Context, c clock.Clock, pause time.Duration, check func(context.Context)) {
	waited := false
	Every(ctx, c, pause, func(ctx context.Context) {
		if waited {
			check(ctx)
		}
		waited = true
	})
}
