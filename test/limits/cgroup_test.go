//go:build cluster

package limits

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cgroup is a folder of the cgroup file system, in which the kernel limits the memory of its processes.
type cgroup struct{ folder string }

// kinds are the two versions of the kernel's interface: where the folders of the memory controller are, and the file with the limit.
var kinds = []struct{ root, limit string }{
	{"/sys/fs/cgroup", "memory.max"},
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
}

// newCgroup makes a cgroup with a limit in bytes, and removes it when the test ends. The test fails where no cgroup can be made.
func newCgroup(t *testing.T, limit int) cgroup {
	t.Helper()
	var refused []string
	for _, kind := range kinds {
		folder := filepath.Join(kind.root, "drover-test-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(folder, 0o755); err != nil {
			refused = append(refused, err.Error())
			continue
		}
		if err := write(filepath.Join(folder, kind.limit), strconv.Itoa(limit)); err != nil {
			refused = append(refused, err.Error())
			_ = os.Remove(folder)
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(folder); err != nil {
				t.Error(err)
			}
		})
		return cgroup{folder}
	}
	t.Fatalf("this test needs a memory cgroup: run it as root on Linux, where cgroup version 1 or 2 is writable and the memory controller is on:\n%s",
		strings.Join(refused, "\n"))
	return cgroup{}
}

// write writes to a file that the kernel has made. In a folder that is not a cgroup there is no such file, and it returns an error.
func write(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// wrapper writes a script into the folder dir that runs a program in the cgroup, and returns the script's path.
func (c cgroup) wrapper(t *testing.T, dir, program string) string {
	t.Helper()
	path := filepath.Join(dir, "in-cgroup")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > '%s/cgroup.procs' || exit 1\nexec '%s' \"$@\"\n", c.folder, program)
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// peak returns the largest resident memory so far of the only process in the cgroup, in MiB. The test fails when no process is
// left, as after the kernel has killed the process at the limit.
func (c cgroup) peak(t *testing.T) int {
	t.Helper()
	procs, err := os.ReadFile(filepath.Join(c.folder, "cgroup.procs"))
	must(t, err)
	pid := strings.TrimSpace(string(procs))
	if pid == "" {
		t.Fatal("drover has ended, as when the kernel kills it at the limit of its memory")
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, "VmHWM:"); is {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			must(t, err)
			return kib >> 10
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
