package sandbox

import (
	"fmt"
	"syscall"
)

// neededSpace is the maximum size of a sandbox's folder in bytes. Most of it is etcd's files.
const neededSpace = 200 << 20

// enoughSpace returns an error if the file system of a folder has too little free space for a sandbox. It accepts a
// folder whose free space is unknown.
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
