package sandbox

import (
	"fmt"
	"syscall"
)

// neededSpace is what a sandbox's folder takes at most, in bytes: etcd's files above all.
const neededSpace = 200 << 20

// enoughSpace refuses a folder that will be full before the end. One that cannot be asked is taken.
func enoughSpace(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return nil
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free >= neededSpace {
		return nil
	}
	return fmt.Errorf("there are %d MiB left for the sandbox's folder %s, and it needs %d: make room, or name another one with --dir or TMPDIR",
		free>>20, dir, neededSpace>>20)
}
