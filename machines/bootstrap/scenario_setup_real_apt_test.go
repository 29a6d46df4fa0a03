//go:build extra

package bootstrap

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestTheSetupScriptWaitsForALockOfTheRealApt_F159 holds the lock of apt's lists while the setup updates them. fcntl locks belong to a
// process, so this process holds the lock against apt-get.
func TestTheSetupScriptWaitsForALockOfTheRealApt_F159(t *testing.T) {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		t.Fatalf("apt-get is missing (Debian package apt): %v", err)
	}
	h := newHost(t, input("ubuntu", "{}"))
	h.whole()
	h.must(os.Remove(h.path("bin/socat")))
	for _, folder := range []string{"var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg", "etc/apt/sources.list.d", "etc/apt/preferences.d"} {
		h.must(os.MkdirAll(h.path("apt/"+folder), 0o755))
	}
	h.write("apt/var/lib/dpkg/status", "")
	// Nothing is to be installed here. apt-get must only get its lock.
	h.program("bin/apt-get", "#!/bin/bash\n[[ $* == *update ]] || exit 0\nexec "+apt+" -o Dir="+h.path("apt")+" -o Dir::State::status="+h.path("apt/var/lib/dpkg/status")+" \"$@\"\n")
	h.must(syscall.Mkfifo(h.path("waiting"), 0o600))
	h.must(syscall.Mkfifo(h.path("released"), 0o600))
	h.program("bin/sleep", "#!/bin/bash\necho >"+h.path("waiting")+"\nread -r <"+h.path("released")+"\n")
	lock, err := os.Create(h.path("apt/var/lib/apt/lists/lock"))
	h.must(err)
	h.must(syscall.FcntlFlock(lock.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}))
	waited := make(chan error, 1)
	go func() { // the setup waits for the first time: the lock is released
		_, err := os.ReadFile(h.path("waiting"))
		if err == nil {
			err = lock.Close()
		}
		if err == nil {
			err = os.WriteFile(h.path("released"), []byte("\n"), 0o600)
		}
		waited <- err
	}()
	out, err := h.run(pathSetup)
	if err != nil || strings.Count(out, "E: Could not get lock ") != 1 || strings.Contains(out, "apt update failed") {
		t.Fatalf("error %v, printed:\n%s", err, out)
	}
	h.must(<-waited)
}
