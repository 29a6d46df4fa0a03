package memory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/drover-project/drover/test/kube/memory"
)

// world is a server with a client and an informer of Nodes, in virtual time.
type world struct {
	server *memory.Server
	client kubernetes.Interface
	nodes  listers.NodeLister
}

// inWorld runs a test in a synctest bubble. The informer has synced before the test begins, and is
// stopped after the test ends.
func inWorld(t *testing.T, o memory.Options, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := memory.New(o)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{server: server}
		if w.client, err = kubernetes.NewForConfig(server.Config("admin")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(w.client, 0)
		w.nodes = factory.Core().V1().Nodes().Lister()
		informer := factory.Core().V1().Nodes().Informer()
		factory.StartWithContext(ctx)
		defer func() {
			stop()
			factory.Shutdown()
		}()
		synctest.Wait()
		if !informer.HasSynced() {
			t.Fatal("the informer has not synced")
		}
		test(t, w)
	})
}

func (w *world) makeNode(t *testing.T, name string) {
	t.Helper()
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) known(t *testing.T) int {
	t.Helper()
	synctest.Wait()
	all, err := w.nodes.List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestWatchesAndGarbageCollectionOfTheInMemoryAPIServer(t *testing.T) {
	t.Run("an informer sees a write at once", func(t *testing.T) {
		inWorld(t, memory.Options{}, func(t *testing.T, w *world) {
			w.makeNode(t, "a")
			if n := w.known(t); n != 1 {
				t.Errorf("%d nodes are known", n)
			}
		})
	})
	t.Run("a delayed watch shows a write after the delay", func(t *testing.T) {
		lag := func(_, resource string, _ time.Time) time.Duration {
			return map[string]time.Duration{"nodes": 3 * time.Second}[resource]
		}
		inWorld(t, memory.Options{Lag: lag}, func(t *testing.T, w *world) {
			w.makeNode(t, "a")
			time.Sleep(3*time.Second - time.Millisecond)
			if n := w.known(t); n != 0 {
				t.Errorf("%d nodes are known too early", n)
			}
			time.Sleep(time.Millisecond)
			if n := w.known(t); n != 1 {
				t.Errorf("%d nodes are known", n)
			}
		})
	})
	t.Run("an informer misses no change after its watch was cut", func(t *testing.T) {
		inWorld(t, memory.Options{}, func(t *testing.T, w *world) {
			w.makeNode(t, "a")
			if n := w.known(t); n != 1 {
				t.Errorf("%d nodes are known", n)
			}
			w.server.CutWatches()
			w.makeNode(t, "b")
			time.Sleep(time.Minute)
			if n := w.known(t); n != 2 {
				t.Errorf("%d nodes are known", n)
			}
		})
	})
	t.Run("a watch from a resource version that is hours and many changes old is refused as expired", func(t *testing.T) {
		inWorld(t, memory.Options{}, func(t *testing.T, w *world) {
			w.makeNode(t, "first")
			first, err := w.client.CoreV1().Nodes().Get(t.Context(), "first", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 200 {
				time.Sleep(time.Minute)
				w.makeNode(t, fmt.Sprint("later-", i))
				if n := w.known(t); n != i+2 {
					t.Fatalf("%d nodes are known", n)
				}
			}
			old, err := w.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer old.Stop()
			if e := <-old.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("the watch begins with %+v", e)
			}
		})
	})
	t.Run("a watch that is delayed until a given time shows all changes at that time", func(t *testing.T) {
		var release time.Time
		lag := func(_, _ string, written time.Time) time.Duration { return max(0, release.Sub(written)) }
		inWorld(t, memory.Options{Lag: lag}, func(t *testing.T, w *world) {
			release = time.Now().Add(10 * time.Second)
			w.makeNode(t, "a")
			time.Sleep(9 * time.Second)
			w.makeNode(t, "b")
			if n := w.known(t); n != 0 {
				t.Errorf("%d nodes are known too early", n)
			}
			time.Sleep(time.Second)
			if n := w.known(t); n != 2 {
				t.Errorf("%d nodes are known", n)
			}
		})
	})
	t.Run("a watch ends at its timeout of 60 s even when a test delays all its events for an hour", func(t *testing.T) {
		lag := func(_, _ string, _ time.Time) time.Duration { return time.Hour }
		inWorld(t, memory.Options{Lag: lag}, func(t *testing.T, w *world) {
			begin := time.Now()
			short, err := w.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: new(int64(60))})
			if err != nil {
				t.Fatal(err)
			}
			w.makeNode(t, "a")
			if _, more := <-short.ResultChan(); more || time.Since(begin) != time.Minute {
				t.Errorf("after %v it shows a change: %v", time.Since(begin), more)
			}
		})
	})
	t.Run("when a test cuts the watches of pods and erases the history of Secrets, only the watches of these two kinds end", func(t *testing.T) {
		inWorld(t, memory.Options{}, func(t *testing.T, w *world) {
			var watches []watch.Interface
			for _, follow := range []func(context.Context, metav1.ListOptions) (watch.Interface, error){
				w.client.CoreV1().Nodes().Watch, w.client.CoreV1().Pods("").Watch, w.client.CoreV1().Secrets("").Watch,
			} {
				one, err := follow(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
				if err != nil {
					t.Fatal(err)
				}
				defer one.Stop()
				watches = append(watches, one)
			}
			w.makeNode(t, "a")
			<-watches[0].ResultChan()
			w.server.CutWatches("pods")
			w.server.Forget("secrets")
			if _, more := <-watches[1].ResultChan(); more {
				t.Error("the watch of pods goes on")
			}
			if _, more := <-watches[2].ResultChan(); more {
				t.Error("the watch of secrets goes on")
			}
			w.makeNode(t, "b")
			if _, more := <-watches[0].ResultChan(); !more {
				t.Error("the watch of nodes has ended")
			}
			old, err := w.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
			if err != nil {
				t.Fatal(err)
			}
			defer old.Stop()
			if e := <-old.ResultChan(); e.Type != watch.Added {
				t.Errorf("the history of nodes is answered with %+v", e)
			}
		})
	})
	t.Run("an informer lists the objects again when the API server no longer has the changes since the informer's last event", func(t *testing.T) {
		inWorld(t, memory.Options{}, func(t *testing.T, w *world) {
			w.makeNode(t, "a")
			_ = w.known(t)
			if err := w.client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.makeNode(t, "b")
			w.server.Forget()
			time.Sleep(time.Minute)
			if n := w.known(t); n != 1 {
				t.Errorf("%d nodes are known", n)
			}
			old, err := w.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
			if err != nil {
				t.Fatal(err)
			}
			defer old.Stop()
			if e := <-old.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("an old revision is answered with %+v", e)
			}
		})
	})
	t.Run("the garbage collector deletes a dependent only after the configured delay", func(t *testing.T) {
		inWorld(t, memory.Options{CollectAfter: 5 * time.Second}, func(t *testing.T, w *world) {
			maps := w.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
			owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
			if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{ref}}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := maps.Get(t.Context(), "child", metav1.GetOptions{}); err != nil {
				t.Errorf("at once: %v", err)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if _, err := maps.Get(t.Context(), "child", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("after 5 s: %v", err)
			}
		})
	})
}
