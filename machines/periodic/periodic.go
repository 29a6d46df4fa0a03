// Package periodic calls a check again and again. It keeps nothing: what a check has found is the caller's.
package periodic

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Run calls check until ctx ends: the first time immediately, and each further time after the pause that the last call has returned.
func Run(ctx context.Context, c clock.Clock, check func(context.Context) time.Duration) {
	After(ctx, c, check(ctx), check)
}

// After calls check until ctx ends: the first time after the pause, and each further time after the pause that the last call has returned.
func After(ctx context.Context, c clock.Clock, pause time.Duration, check func(context.Context) time.Duration) {
	for {
		timer := c.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			pause = check(ctx)
		}
	}
}

// Every returns a check that is called again after the same pause each time.
func Every(pause time.Duration, check func(context.Context)) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		check(ctx)
		return pause
	}
}
