package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDroverWaitsAtMost15SecondsForItsControllersToStop(t *testing.T) {
	broken := errors.New("broken")
	never := make(chan struct{})
	for _, tt := range []struct {
		name  string
		start func(context.Context) error
		want  string // part of the error; empty means no error
		took  time.Duration
	}{
		{"drover ends at once with an error when its controllers fail before the signal to stop", func(context.Context) error { return broken }, "broken", 0},
		{"drover ends without an error when its controllers stop at once after the signal to stop", func(ctx context.Context) error { <-ctx.Done(); return nil }, "", time.Hour},
		{"drover waits for controllers that take 9 s to stop, and ends without an error", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(9 * time.Second); return nil }, "", time.Hour + 9*time.Second},
		{"drover ends with an error 15 s after the signal to stop when its controllers never stop", func(context.Context) error { <-never; return nil }, "not finished 15s after", time.Hour + stopTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				defer close(never)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := stopInTime(ctx, tt.start)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			})
		})
	}
}
