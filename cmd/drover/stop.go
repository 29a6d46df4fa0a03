package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// shutdownTimeout is how long running parts may take to finish what they have begun.
	shutdownTimeout = 10 * time.Second
	// stopTimeout is the time after which the process ends in any case. A manager that is stopped before its caches are synced
	// waits for an API server that may never answer.
	stopTimeout = shutdownTimeout + 5*time.Second
)

// stopInTime runs start until it returns. It stops waiting for start when stopTimeout has passed since ctx ended.
func stopInTime(ctx context.Context, start func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("stopping: not finished %v after the signal; drover continues the unfinished work at the next start", stopTimeout)
	}
}
