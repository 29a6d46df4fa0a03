package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	tempPattern = "drover-kube-"
	ownerFile   = "owner"
)

// makeDir makes the cluster's folder and never takes one that is in use. Its
// owner file is locked until release: a folder under the system's temporary one
// whose owner was killed is thereby known, and removed by the next start.
func makeDir(wanted string) (dir string, release func(), err error) {
	if wanted == "" {
		sweep(os.TempDir())
		dir, err = os.MkdirTemp("", tempPattern)
	} else {
		dir, err = emptyDir(wanted)
	}
	if err != nil {
		return "", nil, fmt.Errorf("making its folder: %w", err)
	}
	release, err = own(dir)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("making its folder: %w", err), os.RemoveAll(dir))
	}
	return dir, release, nil
}

func emptyDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty, so another control plane may be using it: name another folder, or remove this one", dir)
	}
	return dir, nil
}

// own locks the owner file before it gets its name, so that nobody finds it unlocked.
func own(dir string) (release func(), err error) {
	file, err := os.CreateTemp(dir, ownerFile)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := os.Rename(file.Name(), filepath.Join(dir, ownerFile)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// sweep removes the folders of clusters whose owner has been killed. What it
// cannot remove stays: it is no reason to refuse a new cluster.
func sweep(temp string) {
	owners, err := filepath.Glob(filepath.Join(temp, tempPattern+"*", ownerFile))
	if err != nil {
		return
	}
	for _, path := range owners {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = file.Close()
	}
}
