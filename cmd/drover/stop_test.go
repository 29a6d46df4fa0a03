package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDroverWaitsABoundedTimeForAProcessToStop(t *testing.T) {
	broken := errors.New("broken")
	never := make(chan struct{})
	for _, tt := range []struct {
		name  string
		start func(context.Context) error
		want  string // part of the error; empty means no error
		took  time.Duration
	}{
		{"the error of a process that ends on its own is returned at once", func(context.Context) error { return broken }, "broken", 0},
		{"no error is returned when a process stops at once on request", func(ctx context.Context) error { <-ctx.Done(); return nil }, "", time.Hour},
		{"drover waits for a process that takes 9 s to stop", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(9 * time.Second); return nil }, "", time.Hour + 9*time.Second},
		{"a process that never stops is abandoned after 15 s with an error", func(context.Context) error { <-never; return nil }, "not finished 15s after", time.Hour + stopTimeout},
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
