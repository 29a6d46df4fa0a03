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

// OwnFolder creates a folder for a caller, which removes it at the end. wanted is the path of the folder, which must be
// empty if it exists. If wanted is "", OwnFolder creates a new folder under the system's temporary folder, with a name
// that begins with prefix. The folder's owner file is locked until release is called or the process ends. A temporary
// folder whose owner file is not locked belongs to a process that was killed; the next call with the same prefix
// removes it.
func OwnFolder(wanted, prefix string) (dir string, release func(), err error) {
	if wanted == "" {
		sweep(os.TempDir(), prefix)
		dir, err = os.MkdirTemp("", prefix)
	} else {
		dir, err = emptyDir(wanted)
	}
	if err != nil {
		return "", nil, err
	}
	release, err = own(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
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
		return "", fmt.Errorf("%s is not empty, so another may be using it, and all of it would be removed at the end: name a new folder", dir)
	}
	return dir, nil
}

// own locks the owner file before the file gets its final name, so that no other process finds it unlocked.
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

// sweep removes the folders of processes that were killed. It ignores errors, because they must not prevent the creation
// of a new folder.
func sweep(temp, prefix string) {
	owners, err := filepath.Glob(filepath.Join(temp, prefix+"*", ownerFile))
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
