package autoscale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/proto"
)

const (
	// maxReceive bounds the size of a request in bytes, and maxHeaders that of its headers. DeleteNodes carries the labels and
	// annotations of each node, and PodPrice a whole pod (CA-C08).
	maxReceive, maxHeaders = 8 << 20, 8 << 10
	// drain is how long calls that have begun may continue when the server stops.
	drain = 10 * time.Second
	// callDeadline bounds a call whose client set no deadline.
	callDeadline = 30 * time.Second
	// idlePing is the time without a call after which the server pings a client, and pingTimeout is how long the client has to
	// answer. Without pings, a connection whose other end has vanished would stay open.
	idlePing, pingTimeout = 2 * time.Minute, 20 * time.Second
)

// Options are the dependencies and settings of a Server.
type Options struct {
	// Groups are the node groups to serve.
	Groups Groups
	// Ready is closed when the node groups are complete. The server opens its ports only then (CA-C01). nil means that it opens them
	// immediately.
	Ready <-chan struct{}
	// Address is host:port, unix:///path, or several of these separated by commas. Default: 127.0.0.1:8086. A unix socket is
	// served without TLS: its permissions (0660) decide who may call.
	Address string
	// Cert, Key and ClientCA are the files for mutual TLS. All three are set, unless SelfSigned or Insecure is.
	Cert, Key, ClientCA string
	// SelfSigned makes the server use the certificates of Keeper instead of the files Cert, Key and ClientCA.
	SelfSigned bool
	Keeper     *Keeper
	// AllowedClients are the names (CN, DNS or URI SAN) that a client's certificate may have. Empty means that any
	// certificate signed by a trusted authority is accepted.
	AllowedClients []string
	// Insecure serves without TLS. It is allowed only on loopback. A unix socket needs neither Insecure nor certificates.
	Insecure bool
	// Reflection enables gRPC server reflection.
	Reflection bool
	// GPULabel is the label of nodes with a GPU.
	GPULabel string
	// Registry registers the metrics. nil means that they are not registered.
	Registry prometheus.Registerer
	// Clock is the clock. Default: the real one.
	Clock clock.Clock
}

// DefaultAddress is the address on which the server listens when --grpc-address is not set. Only an autoscaler in the same pod can
// reach it.
const DefaultAddress = "127.0.0.1:8086"

// Server serves node groups to the cluster-autoscaler. It is a runnable of a controller-runtime manager and runs on every
// replica, whether it leads or not.
type Server struct {
	options Options
	server  *grpc.Server
	health  *health.Server
	// files are the certificate files, which the server reads again while it runs; nil when the options name no files.
	files      *files
	calls      *prometheus.HistogramVec
	handshakes *handshakes
	address    atomic.Pointer[net.Addr]
}

// New checks the options and returns a Server. It opens no port or socket yet. Its errors name the wrong flag.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{options: o, health: health.NewServer(), calls: newCalls(o.Registry)}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(mostStreams),
		grpc.UnaryInterceptor(s.guard),
		// The autoscaler's client never sends pings; the pings of any other client are limited.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idlePing, Timeout: pingTimeout}),
		grpc.ConnectionTimeout(handshakeTimeout),
	}
	creds, err := s.credentials()
	if err != nil {
		return nil, err
	}
	s.handshakes = newHandshakes(creds)
	s.server = grpc.NewServer(append(options, grpc.Creds(s.handshakes))...)
	proto.RegisterCloudProviderServer(s.server, &service{groups: o.Groups, gpuLabel: o.GPULabel})
	s.health.SetServingStatus(proto.CloudProvider_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s.server, s.health)
	if o.Reflection {
		reflection.Register(s.server)
	}
	return s, nil
}

// credentials returns the transport credentials of connections that are not from unix sockets: TLS, or no TLS at all.
func (s *Server) credentials() (credentials.TransportCredentials, error) {
	if err := checkSecurity(s.options); err != nil || s.options.plain() {
		return insecure.NewCredentials(), err
	}
	if s.options.SelfSigned {
		return secured(s.options.Keeper, s.options.AllowedClients), nil
	}
	var err error
	if s.files, err = newFiles(s.options); err != nil {
		return nil, err
	}
	return secured(s.files, s.options.AllowedClients), nil
}

// NeedLeaderElection reports false: every replica serves, not only the leader.
func (s *Server) NeedLeaderElection() bool { return false }

// Addr returns the first address on which the server listens; nil before it listens.
func (s *Server) Addr() net.Addr {
	if a := s.address.Load(); a != nil {
		return *a
	}
	return nil
}

// Ready returns nil while the server listens and the groups can be trusted, so that it answers Refresh (CA-C06).
func (s *Server) Ready() error {
	if s.Addr() == nil {
		return errors.New("the gRPC server does not listen yet")
	}
	return s.options.Groups.Trusted()
}

// Start serves until ctx ends. Then it finishes the calls that have begun (CA-C04).
func (s *Server) Start(ctx context.Context) error {
	for _, ready := range s.awaited() {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
		}
	}
	open, err := listenAll(ctx, s.options.Address)
	if err != nil {
		return err
	}
	return s.serve(ctx, open)
}

// awaited returns the channels that must be closed before the server listens.
func (s *Server) awaited() (all []<-chan struct{}) {
	if s.options.Ready != nil {
		all = append(all, s.options.Ready)
	}
	if s.options.SelfSigned && !s.options.plain() {
		all = append(all, s.options.Keeper.ready)
	}
	return all
}

// serve serves the listeners until ctx ends or one of them fails.
func (s *Server) serve(ctx context.Context, open []net.Listener) error {
	address := open[0].Addr()
	s.address.Store(&address)
	ctrl.LoggerFrom(ctx).Info("Serving node groups", "address", s.options.Address, "tls", !s.options.plain())
	following, cancel := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	if s.files != nil {
		follower.Go(func() { s.files.follow(following) })
	}
	ended := make(chan error, len(open))
	for _, listener := range open {
		go func() { ended <- s.server.Serve(s.handshakes.listener(listener)) }()
	}
	var errs []error
	left := len(open)
	select {
	case err := <-ended:
		errs = append(errs, err)
		left--
	case <-ctx.Done():
	}
	s.stop()
	for range left {
		// ErrServerStopped is not a failure: Serve returns it when the server was stopped before Serve began.
		if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stop waits until the calls that have begun are finished, for at most the time drain.
func (s *Server) stop() {
	s.health.Shutdown()
	done := make(chan struct{})
	go func() {
		s.server.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-s.options.Clock.After(drain):
		s.server.Stop()
		<-done
	}
}

// guard wraps every call: it sets a deadline, waits for the groups at a connection's first call, turns a panic into an error (CA-C11),
// and closes the connection of a client that another replica should serve.
func (s *Server) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	began := s.options.Clock.Now()
	defer func() {
		if cause := recover(); cause != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("%v", cause), "A call panicked", "method", info.FullMethod, "stack", string(debug.Stack()))
			resp, err = nil, status.Error(codes.Internal, "Internal error of drover; see drover's log")
		}
		s.calls.WithLabelValues(path.Base(info.FullMethod), status.Code(err).String()).Observe(s.options.Clock.Since(began).Seconds())
	}()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callDeadline)
		defer cancel()
	}
	welcome(ctx, s.options.Groups, info.FullMethod)
	resp, err = next(ctx, req)
	dismiss(ctx, s.options.Groups, info.FullMethod, err)
	return resp, err
}
