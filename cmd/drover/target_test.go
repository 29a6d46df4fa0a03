package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/test/kube"
)

func TestATargetClusterThatIsTooOldIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"gitVersion":"v1.29.14"}`))
	}))
	defer server.Close()
	o := served()
	o.targetKubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, kube.WriteKubeconfig(o.targetKubeconfig, &rest.Config{Host: server.URL}))
	_, err := addTarget(nil, o, nil)
	if err == nil || !strings.Contains(err.Error(), "--target-kubeconfig: the API server is Kubernetes v1.29.14; drover needs 1.30.0 or newer") {
		t.Errorf("got %v", err)
	}
}

// laterVersion answers like an API server that first cannot be reached, then is too old, and then
// is new enough.
type laterVersion struct{ asked int }

func (l *laterVersion) ServerVersion() (*version.Info, error) {
	l.asked++
	switch l.asked {
	case 1:
		return nil, errors.New("connection refused")
	case 2:
		return &version.Info{GitVersion: "v1.29.0"}, nil
	}
	return &version.Info{GitVersion: "v1.37.1"}, nil
}

func TestDroverWaitsForTheTargetCluster(t *testing.T) {
	t.Run("drover waits until the target cluster answers with a supported version", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := &laterVersion{}
			c, err := newTarget(&rest.Config{Host: "https://127.0.0.1:1"}, nil)
			must(t, err)
			c.server, c.clock = server, clock.RealClock{}
			if !c.await(t.Context()) || server.asked != 3 {
				t.Errorf("it was asked %d times", server.asked)
			}
		})
	})
	t.Run("the wait for the target cluster ends when drover stops", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		c, err := newTarget(&rest.Config{Host: "https://127.0.0.1:1"}, nil)
		must(t, err)
		if c.await(ctx) {
			t.Error("it counts as there")
		}
	})
}

func TestTheRESTMapperOfTheTargetCluster(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	m, err := newTargetMapper(&rest.Config{Host: server.URL}, http.DefaultClient)
	must(t, err)
	t.Run("a kind that drover watches is mapped without a request to the API server", func(t *testing.T) {
		for _, k := range targetKinds {
			mapping, err := m.RESTMapping(k.kind.GroupKind(), k.kind.Version)
			if err != nil || mapping.Scope != k.scope {
				t.Errorf("%s: got %v, error %v", k.kind, mapping, err)
			}
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("the API server was asked %d times", n)
		}
	})
	t.Run("a kind that drover does not watch is not reported as missing while the API server does not answer", func(t *testing.T) {
		_, err := m.RESTMapping(schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}, "v1")
		if err == nil || meta.IsNoMatchError(err) {
			t.Errorf("got %v", err)
		}
	})
}

// controlOnly is a manager that returns the client and the cache of a cluster, and runs nothing.
type controlOnly struct {
	manager.Manager
	control cluster.Cluster
}

func (m controlOnly) GetClient() client.Client { return m.control.GetClient() }
func (m controlOnly) GetCache() cache.Cache    { return m.control.GetCache() }

func TestDroverReadsAndWritesInTheRightCluster(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	control, err := newTarget(config, nil)
	must(t, err)
	target, err := newTarget(config, nil)
	must(t, err)
	mgr := controlOnly{control: control}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	t.Run("without a separate target cluster, drover reads the Nodes from the control cluster", func(t *testing.T) {
		w := newWiring(mgr, nil, nil)
		if w.target != cluster.Cluster(w.controllers) {
			t.Error("they are in another one")
		}
	})
	t.Run("with a separate target cluster, drover reads the Nodes from the target cluster", func(t *testing.T) {
		w := newWiring(mgr, target, nil)
		if w.target.GetCache() != target.GetCache() || w.controllers.GetCache() != mgr.GetCache() {
			t.Error("a handle is that of the wrong cluster")
		}
	})
	t.Run("in observe mode, drover writes neither to the control cluster nor to the target cluster", func(t *testing.T) {
		observer := newObserver(&options{clusterOptions: clusterOptions{observe: true}})
		observer.kubernetes(config)
		for range 2 {
			c, err := newTarget(config, nil)
			must(t, err)
			must(t, c.GetClient().Delete(t.Context(), node))
		}
		if len(observer.decisions) != 1 || observer.decisions[0].Count != 2 {
			t.Errorf("noted %+v", observer.decisions)
		}
	})
}
