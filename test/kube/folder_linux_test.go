package kube

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// parentVariable is an environment variable. When it is set, the test binary only starts a process in a folder and
// waits, so that the test can kill it. Its value is the parent folder.
const parentVariable = "DROVER_TEST_KUBE_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(ownAndWait(dir))
	}
	os.Exit(m.Run())
}

// ownAndWait creates a cluster's folder, starts one process in it, prints the path and the process ID, and waits for the
// process to end.
func ownAndWait(temp string) int {
	if err := os.Setenv("TMPDIR", temp); err != nil {
		return 1
	}
	dir, _, err := OwnFolder("", tempPattern)
	if err != nil {
		return 1
	}
	p, err := startProcess("/bin/sleep", filepath.Join(dir, "log"), []string{"600"})
	if err != nil {
		return 1
	}
	_, _ = os.Stdout.WriteString(dir + " " + strconv.Itoa(p.cmd.Process.Pid) + "\n")
	<-p.ended
	return 0
}

func TestTheProcessesOfATestClusterEndWhenTheProcessThatStartedThemIsKilled(t *testing.T) {
	temp := t.TempDir()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), parentVariable+"="+temp)
	output, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir, number, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	sweep(temp, tempPattern)
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a living owner's folder was swept: %v", err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // Wait returns an error, because the process was killed
	gone := func(context.Context) (bool, error) { return !alive(pid), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, gone); err != nil {
		t.Errorf("process %d survived its owner: %v", pid, err)
	}
	sweep(temp, tempPattern)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the killed owner's folder is still there (%v)", err)
	}
}

// alive reports whether a process runs. A zombie does not run: in a container without an init process an orphaned
// process stays as a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}
