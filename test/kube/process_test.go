package kube

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestWhenATestClusterCannotStartTheErrorNamesThePortThatIsInUse(t *testing.T) {
	bin, err := Binaries(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	dir, release, err := OwnFolder("", tempPattern)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(dir, bin, release)
	defer c.Stop()
	if err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", local(c.ports.etcdClient))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	err = c.startCore(t.Context(), Options{})
	var refused *portTakenError
	if !errors.As(err, &refused) || refused.component != etcd || refused.address != taken.Addr().String() {
		t.Errorf("the error is %v, want one that names etcd and %s", err, taken.Addr())
	}
}

func TestAProcessGetsAGracePeriodBeforeItIsKilled(t *testing.T) {
	for name, test := range map[string]struct {
		trap, last string
		patience   time.Duration
	}{
		"a process that ends after SIGTERM is not killed":                 {`echo asked; exit`, "asked", time.Minute},
		"a process that ignores SIGTERM is killed after its grace period": {``, "ready", 100 * time.Millisecond},
		"a process with a grace period of 0 is killed at once":            {`sleep 600`, "ready", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := startProcess("/bin/sh", filepath.Join(t.TempDir(), "log"), []string{"-c", `trap "` + test.trap + `" TERM; echo ready; while :; do sleep 0.01; done`})
			if err != nil {
				t.Fatal(err)
			}
			ready := func(context.Context) (bool, error) { return string(p.tail()) == "ready", nil }
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, ready); err != nil {
				t.Error(err)
			}
			if test.patience > 0 {
				p.ask()
			}
			p.endBy(time.Now().Add(test.patience))
			if got := string(lastLines(p.tail(), 1)); got != test.last {
				t.Errorf("its last word is %q, want %q", got, test.last)
			}
		})
	}
}

func TestTheLastTwoLinesOfALogAreReturned(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"only the last two lines are returned when the log has three": {"a\nb\nc\n", "b\nc"},
		"the whole log is returned when it has one line":              {"a\n", "a"},
		"nothing is returned when the log is empty":                   {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(lastLines([]byte(test.log), 2)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
