//go:build unix

package kube

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

const lockRetry = 200 * time.Millisecond

// lockFile creates a file if necessary and holds an exclusive lock on it until unlock is called or
// the process ends. If another process holds the lock, lockFile calls waiting once and waits until
// it gets the lock or ctx ends.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for first := true; ; first = false {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil // closing the file releases the lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(err, file.Close())
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		case <-ticker.C:
		}
	}
}
