package kube_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/test/kube"
)

func TestStopLeavesNoProcessAndNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	c, err := kube.Start(t.Context(), kube.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	pids := c.Pids()
	if len(pids) != 2 {
		t.Errorf("%d processes run, want etcd and kube-apiserver", len(pids))
	}
	if _, err := kube.Start(t.Context(), kube.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second cluster in the same folder: %v, want a refusal", err)
	}
	c.Stop()
	c.Stop()
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there (%v)", err)
	}
}

func TestAnAPIServerThatIsDownForAWhile(t *testing.T) {
	c := kube.ForTest(t, kube.Options{})
	if _, err := c.Kubectl(t.Context(), "create", "namespace", "kept"); err != nil {
		t.Fatal(err)
	}
	c.StopAPIServer()
	if out, err := c.Kubectl(t.Context(), "get", "namespace", "kept"); err == nil {
		t.Errorf("it still answers: %s", out)
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "get", "namespace", "kept"); err != nil {
		t.Errorf("reading the stored object: %v", err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a component counts as ended: %v", err)
	}
}

func TestAComponentThatDiesAtStartReturnsItsErrorAndLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	_, err := kube.Start(t.Context(), kube.Options{Dir: dir, APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver ended") || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("the error is %v, want the component and its last words", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there (%v)", err)
	}
}

func TestTheAuditLogCountsWrites(t *testing.T) {
	c := kube.ForTest(t, kube.Options{})
	config, err := c.ConfigForUser("counted", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	maps := clientFor(t, config).CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	for range 2 { // the API server refuses the second one, which therefore does not count as a write
		_, err = maps.Create(t.Context(), object, metav1.CreateOptions{})
	}
	if err == nil {
		t.Fatal("the second create was not refused")
	}
	if _, err := maps.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var all, writes []string
	eventually(t, "the last request stands in the log", func(context.Context) (bool, error) {
		requests, err := c.Requests()
		all, writes = nil, nil
		for _, r := range requests {
			if r.User != "counted" || r.Resource != "configmaps" || r.Name != "one" {
				continue
			}
			all = append(all, r.Verb)
			if r.Wrote() {
				writes = append(writes, r.Verb)
			}
		}
		return len(all) == 4, err
	})
	if got := strings.Join(writes, " "); got != "create delete" {
		t.Errorf("the writes are %q of %q, want create and delete", got, all)
	}
}

func TestAssetsThatLackABinaryGiveOneClearError(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kubectl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	_, err := kube.Start(t.Context(), kube.Options{Components: []kube.Component{kube.Scheduler}})
	want := "KUBEBUILDER_ASSETS=" + dir + " lacks kube-apiserver, kube-scheduler: it must be a folder that holds the executables " +
		"etcd, kube-apiserver, kubectl, kube-scheduler; or unset it to have them built"
	if err == nil || err.Error() != want {
		t.Errorf("the error is\n%v, want\n%s", err, want)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		options kube.Options
		want    string
	}{
		"an unknown component": {
			kube.Options{Components: []kube.Component{"kube-proxy"}},
			`unknown component "kube-proxy" in Options.Components: use some of [kube-controller-manager kube-scheduler kwok]`,
		},
		"a port of the API server's": {
			kube.Options{APIServerFlags: []string{"--v=2", "--secure-port=6443"}},
			"--secure-port in Options.APIServerFlags: Start chooses that itself, leave it out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kube.Start(t.Context(), test.options)
			if err == nil {
				c.Stop()
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("the error is %v, want %s", err, test.want)
			}
		})
	}
}

// running reports whether a process with that number exists.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func eventually(t *testing.T, what string, holds wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, holds); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestEtcdDataIsSavedRestoredAndRemoved(t *testing.T) {
	c := kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}})
	run := func(args ...string) error {
		_, err := c.Kubectl(t.Context(), args...)
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	backup := filepath.Join(t.TempDir(), "etcd")
	must(run("create", "namespace", "before"))
	must(c.SaveData(t.Context(), backup))
	must(run("create", "namespace", "after"))
	must(c.RestoreData(t.Context(), backup))
	if before, after := run("get", "namespace", "before"), run("get", "namespace", "after"); before != nil || after == nil {
		t.Errorf("after restoring, the older namespace: %v, the younger one: %v", before, after)
	}
	must(c.RemoveData(t.Context()))
	if err := run("get", "namespace", "before"); err == nil {
		t.Error("after removing, the namespace is still there")
	}
	must(run("get", "configmap", "--namespace=kube-public", "cluster-info"))
	if err := c.Err(); err != nil {
		t.Errorf("a component counts as ended: %v", err)
	}
}
