package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	folderPattern = "drover-sandbox-"
	ownerFile     = "owner"
)

// makeFolder makes the sandbox's folder, which Stop removes; so one that holds anything is refused. Its owner file is
// locked until release: a temporary folder whose owner was killed is known by that, and removed by the next start.
func makeFolder(wanted string) (dir string, release func(), err error) {
	if wanted == "" {
		sweep(os.TempDir())
		dir, err = os.MkdirTemp("", folderPattern)
	} else {
		dir, err = emptyFolder(wanted)
	}
	if err != nil {
		return "", nil, fmt.Errorf("making the sandbox's folder: %w", err)
	}
	// Locked before it gets its name, so that nobody finds it unlocked.
	fresh := filepath.Join(dir, ownerFile+".new")
	release, err = lockFile(fresh)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, ownerFile))
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("making the sandbox's folder: %w", err), os.RemoveAll(dir))
	}
	return dir, release, nil
}

func emptyFolder(wanted string) (string, error) {
	dir, err := filepath.Abs(wanted)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("--dir %s is not empty, and it would be removed at the end: name a new folder", dir)
	}
	return dir, err
}

// sweep removes the folders of sandboxes that were killed. What it cannot remove stays: that is no reason to refuse a
// new one.
func sweep(temp string) {
	owners, err := filepath.Glob(filepath.Join(temp, folderPattern+"*", ownerFile))
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
