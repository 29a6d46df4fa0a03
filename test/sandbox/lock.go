package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Lock makes sure that only one demo runs at a time: two would compete for the cores, and their measurements would mean nothing.
// The operating system releases the lock when its process ends, however it ends, so a file that is left behind blocks no other
// demo. The error names the process that has the lock.
func Lock() (release func(), err error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding a place for the lock: %w", err)
	}
	return lockFile(filepath.Join(dir, "drover", "sandbox.lock"))
}

func lockFile(path string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the lock's folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another sandbox is running (process %s): end it first", strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("taking the lock %s: %w", path, err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock: %w", err), file.Close())
	}
	if _, err := fmt.Fprintln(file, os.Getpid()); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
