package autoscaler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/machines/deployment"
	openstack "github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
)

// drover is one running replica of drover: it serves node groups, and as the leader it also runs the deployment and set controllers.
type drover struct {
	*process
	user   string
	server grpc.ClientConnInterface
	synced <-chan struct{}
	failed error
	// cut is true while the replica cannot reach the API server. refuses holds a function that reports whether the API server
	// forbids a request of the replica.
	cut     atomic.Bool
	refuses atomic.Value
}

// droverOptions configures a replica.
type droverOptions struct {
	follower  bool
	guard     time.Duration
	prices    types.NamespacedName
	zeroOrMax bool
	gpuLabel  string
}

// joinTimeout is how long drover waits for a server to become a node.
const joinTimeout = 10 * time.Minute

// startDrover starts a replica of drover, to which all further calls of the client go.
func (w *world) startDrover(o droverOptions) *drover {
	d := &drover{user: "drover-" + string(rune('a'+len(w.drovers)))}
	d.refuses.Store(nobody)
	connection := w.kube.ConfigOver(severed{d, w.kube.RoundTripper(d.user)})
	connection.UserAgent = "drover"
	mgr, err := newManager(connection)
	w.must(err)
	groups := nodegroup.New(nodegroup.Options{
		Control: mgr, Target: mgr, RestartGuard: o.guard, Prices: o.prices, ZeroOrMax: o.zeroOrMax, StartupTaint: startupTaint,
		Clock: unhurried{}, Discovery: model.Discovery{Cloud: openstack.Provider{}}, JoinTimeout: joinTimeout,
	})
	server, err := autoscale.New(autoscale.Options{Groups: groups, Insecure: true, GPULabel: o.gpuLabel})
	w.must(err)
	w.must(mgr.Add(groups))
	if !o.follower {
		w.must(deployment.New(deployment.Options{Control: mgr, Clock: clock.RealClock{}}).SetupWithManager(mgr))
		w.must(set.New(set.Options{Control: mgr, Clock: clock.RealClock{}, Suffix: func() string { return rand.String(5) }}).SetupWithManager(mgr))
	}
	d.server, d.synced = server.Local(), groups.Synced()
	d.process = w.process(func(ctx context.Context) { d.failed = mgr.Start(ctx) })
	w.drovers = append(w.drovers, d)
	w.wire.to(d)
	return d
}

// unhurried is a clock whose tickers tick five times less often. With this clock drover's check of its caches runs every 25 s
// instead of every 5 s. That is often enough, because drover considers caches stale only later, and it saves processor time.
type unhurried struct{ clock.RealClock }

// NewTicker returns a ticker with five times the period.
func (c unhurried) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(5 * d) }

func newManager(connection *rest.Config) (ctrl.Manager, error) {
	return ctrl.NewManager(connection, ctrl.Options{
		Scheme: kinds, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: ptr.To(10 * time.Second),
		Controller:              config.Controller{SkipNameValidation: ptr.To(true)},
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}}}},
		MapperProvider:          func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
	})
}

// severed is a connection to the API server that the test can cut.
type severed struct {
	d    *drover
	next http.RoundTripper
}

// nobody reports that the API server does not forbid the request. It is the value of drover.refuses unless a scenario sets
// another one.
func nobody(*http.Request) bool { return false }

func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// forbidden returns the API server's response to a forbidden request.
func forbidden(r *http.Request) (*http.Response, error) {
	status := apierrors.NewForbidden(schema.GroupResource{Resource: lastOf(r.URL.Path)}, "", errors.New("exceeded quota")).Status()
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: r, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)),
	}, nil
}

var errCut = errors.New("connection refused")

func (s severed) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.d.cut.Load() {
		return nil, errCut
	}
	if refuses, ok := s.d.refuses.Load().(func(*http.Request) bool); ok && refuses(r) {
		return forbidden(r)
	}
	return s.next.RoundTrip(r)
}
