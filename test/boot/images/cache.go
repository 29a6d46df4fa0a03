package images

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cached returns the cache's folder for these inputs. If the cache has no such folder, cached creates an empty one, calls fill to
// fill it, and renames it only when fill has succeeded. Meanwhile another process that requests the same folder waits.
func (b *builder) cached(name string, inputs []string, fill func(dir string) error) (string, error) {
	sum := sha256.New()
	for _, input := range inputs {
		_, _ = fmt.Fprintln(sum, len(input), input)
	}
	dir := filepath.Join(b.cache, fmt.Sprintf("%s-%x", name, sum.Sum(nil)[:6]))
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("locking %s: %w", dir, err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for %s: %w", name, err)
	}
	began := time.Now()
	b.logf("making %s", dir)
	if err := fill(part); err != nil {
		return "", fmt.Errorf("making %s: %w", name, err)
	}
	b.logf("%s: made in %s", name, time.Since(began).Round(time.Second))
	return dir, os.Rename(part, dir)
}

// lock creates a file if necessary, and holds an exclusive lock on it until unlock is called.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

// builder creates the images that the cache lacks.
type builder struct {
	ctx   context.Context
	cache string
	log   io.Writer
}

func (b *builder) logf(format string, values ...any) {
	_, _ = fmt.Fprintf(b.log, format+"\n", values...)
}
