package periodic

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestAPeriodicCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		run  func(context.Context, func(context.Context) time.Duration)
		want []time.Duration
	}{
		"is made immediately and then after each pause that it returns": {
			func(ctx context.Context, check func(context.Context) time.Duration) {
				Run(ctx, clock.RealClock{}, check)
			},
			[]time.Duration{0, time.Minute, 3 * time.Minute},
		},
		"is first made after a pause when it can wait": {
			func(ctx context.Context, check func(context.Context) time.Duration) {
				After(ctx, clock.RealClock{}, 90*time.Second, func(ctx context.Context) { check(ctx) })
			},
			[]time.Duration{90 * time.Second, 180 * time.Second},
		},
		"is made at intervals of the same length": {
			func(ctx context.Context, check func(context.Context) time.Duration) {
				Every(ctx, clock.RealClock{}, time.Minute, func(ctx context.Context) { check(ctx) })
			},
			[]time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute},
		},
	} {
		t.Run("a check "+name+", until the context ends", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithDeadline(t.Context(), began.Add(4*time.Minute-time.Second))
				defer cancel()
				var got []time.Duration
				tc.run(ctx, func(context.Context) time.Duration {
					got = append(got, time.Since(began))
					return time.Duration(len(got)) * time.Minute
				})
				if !slices.Equal(got, tc.want) {
					t.Errorf("checks after %v, want %v", got, tc.want)
				}
			})
		})
	}
}
