//go:build cluster

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/drover-project/drover/test/kube"
)

// TestTheLifeOfATestCluster uses one control plane for all of its subtests, because starting one takes seconds.
func TestTheLifeOfATestCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	c := kube.ForTest(t, kube.Options{Dir: dir, Components: []kube.Component{kube.ControllerManager}})
	t.Run("the audit log distinguishes successful writes from refused writes and from reads", func(t *testing.T) { auditCounts(t, c) })
	t.Run("a restarted API server keeps its objects", func(t *testing.T) { restartKeeps(t, c) })
	t.Run("the data of etcd can be saved, restored and removed", func(t *testing.T) { dataIsRestored(t, c) })
	t.Run("a second cluster in the same folder is refused", func(t *testing.T) {
		if _, err := kube.Start(t.Context(), kube.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("a second cluster in the same folder: %v, want a refusal", err)
		}
	})
	t.Run("Stop ends every process of the cluster and deletes its folder", func(t *testing.T) {
		pids := c.Pids()
		if len(pids) != 3 {
			t.Errorf("%d processes run, want etcd, kube-apiserver and kube-controller-manager", len(pids))
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
	})
}

// namespaces is a client with short methods to create and read namespaces.
type namespaces struct {
	corev1client.NamespaceInterface
}

func (n namespaces) make(ctx context.Context, name string) error {
	_, err := n.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (n namespaces) read(ctx context.Context, name string) error {
	_, err := n.Get(ctx, name, metav1.GetOptions{})
	return err
}

func restartKeeps(t *testing.T, c *kube.Cluster) {
	in := namespaces{clientFor(t, c.Config).CoreV1().Namespaces()}
	if err := in.make(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	c.StopAPIServer()
	if err := in.read(t.Context(), "kept"); err == nil {
		t.Error("it still answers")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.read(t.Context(), "kept"); err != nil {
		t.Errorf("reading the stored object: %v", err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a component counts as ended: %v", err)
	}
}

func auditCounts(t *testing.T, c *kube.Cluster) {
	config, err := c.ConfigForUser("counted", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	maps := clientFor(t, config).CoreV1().ConfigMaps("default")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	for range 2 { // the API server refuses the second create, which must not count as a write
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

// running reports whether a process with that number exists.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func eventually(t *testing.T, what string, holds wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, holds); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func dataIsRestored(t *testing.T, c *kube.Cluster) {
	core := clientFor(t, c.Config).CoreV1()
	in := namespaces{core.Namespaces()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	backup := filepath.Join(t.TempDir(), "etcd")
	must(in.make(t.Context(), "before"))
	must(c.SaveData(t.Context(), backup))
	must(in.make(t.Context(), "after"))
	must(c.RestoreData(t.Context(), backup))
	if before, after := in.read(t.Context(), "before"), in.read(t.Context(), "after"); before != nil || !apierrors.IsNotFound(after) {
		t.Errorf("after restoring, the older namespace: %v, the younger one: %v", before, after)
	}
	must(c.RemoveData(t.Context()))
	if err := in.read(t.Context(), "before"); !apierrors.IsNotFound(err) {
		t.Errorf("after removing, the namespace exists: %v", err)
	}
	_, err := core.ConfigMaps(metav1.NamespacePublic).Get(t.Context(), "cluster-info", metav1.GetOptions{})
	must(err)
	if err := c.Err(); err != nil {
		t.Errorf("a component counts as ended: %v", err)
	}
}
