package autoscale

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
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
	// maxReceive bounds a request: DeleteNodes carries the labels and annotations of each node, PodPrice a whole pod
	// (CA-C08).
	maxReceive = 64 << 20
	// drain is how long calls that have begun may go on when the server stops.
	drain = 10 * time.Second
	// callDeadline bounds a call whose client gave it no deadline.
	callDeadline = 30 * time.Second
	// idlePing is after how long without a call a client is asked whether it is there, and pingTimeout how long it has to
	// answer: a connection whose other end has vanished does not stay.
	idlePing, pingTimeout = 2 * time.Minute, 20 * time.Second
)

// Options are what a Server is made of.
type Options struct {
	// Groups are what is served.
	Groups Groups
	// Ready is closed when the answers can be trusted; the port opens only then (CA-C01). Nil: at once.
	Ready <-chan struct{}
	// Address is host:port, or unix:///path. Default: 127.0.0.1:8086.
	Address string
	// Cert, Key and ClientCA are files for mutual TLS: all three, unless Insecure.
	Cert, Key, ClientCA string
	// AllowedClients are the names (CN, DNS or URI SAN) that a client's certificate may bear. Empty: any that ClientCA
	// signed.
	AllowedClients []string
	// Insecure serves without TLS. Only on loopback or a unix socket.
	Insecure bool
	// Reflection lets clients list the service.
	Reflection bool
	// GPULabel is the label of nodes with a GPU; GPUTypes are values that it has, beside those in the groups' templates.
	GPULabel string
	GPUTypes []string
	// Registry takes the metrics. Nil: they are kept nowhere.
	Registry prometheus.Registerer
	// Clock is the time. Default: the real one.
	Clock clock.Clock
}

// DefaultAddress is where the server listens when nothing else is said: only for an autoscaler in the same pod.
const DefaultAddress = "127.0.0.1:8086"

// Server serves node groups to the cluster-autoscaler. It is a runnable of a controller-runtime manager and runs on
// every replica, leader or not.
type Server struct {
	options Options
	server  *grpc.Server
	health  *health.Server
	// certificate is the server's own; nil without TLS.
	certificate *certificate
	calls       *calls
	handshakes  *handshakes
	address     atomic.Pointer[net.Addr]
}

// New checks the options and makes a Server. Nothing is opened yet. Its errors name the flag that is wrong.
func New(o Options) (*Server, error) {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Server{options: o, health: health.NewServer(), calls: newCalls(o.Registry)}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.UnaryInterceptor(s.guard),
		grpc.StreamInterceptor(s.guardStream),
		// The client never pings; what another one may do is bounded.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idlePing, Timeout: pingTimeout}),
		grpc.ConnectionTimeout(handshakeTimeout),
	}
	if err := checkSecurity(o); err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if !o.Insecure {
		var err error
		if creds, s.certificate, err = secured(o); err != nil {
			return nil, err
		}
	}
	s.handshakes = &handshakes{TransportCredentials: creds}
	s.server = grpc.NewServer(append(options, grpc.Creds(connections{s.handshakes}))...)
	proto.RegisterCloudProviderServer(s.server, &service{groups: o.Groups, gpuLabel: o.GPULabel, gpuTypes: o.GPUTypes})
	s.health.SetServingStatus(proto.CloudProvider_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s.server, s.health)
	if o.Reflection {
		reflection.Register(s.server)
	}
	return s, nil
}

// Validate returns what is wrong with the address and with the files for TLS, which it reads. Its error names the flag.
func (o Options) Validate() error {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if err := errors.Join(checkAddress(o.Address), checkSecurity(o)); err != nil || o.Insecure {
		return err
	}
	_, _, err := secured(o)
	return err
}

// checkSecurity refuses options that would serve in the clear what others can reach, or that contradict each other.
func checkSecurity(o Options) error {
	given := 0
	for _, file := range []string{o.Cert, o.Key, o.ClientCA} {
		if file != "" {
			given++
		}
	}
	switch {
	case o.Insecure && !mayBePlain(o.Address):
		return fmt.Errorf("--grpc-insecure: %s can be reached from other machines; listen on 127.0.0.1, ::1 or unix:///path, or give --grpc-cert, --grpc-key and --grpc-client-ca", o.Address)
	case o.Insecure && (given > 0 || len(o.AllowedClients) > 0):
		return errors.New("--grpc-insecure: it excludes --grpc-cert, --grpc-key, --grpc-client-ca and --grpc-allowed-clients")
	case !o.Insecure && given < 3:
		return errors.New("--grpc-cert, --grpc-key and --grpc-client-ca: all three are needed, or --grpc-insecure on a loopback address or unix socket")
	}
	return nil
}

// NeedLeaderElection says that every replica serves, not only the leader.
func (s *Server) NeedLeaderElection() bool { return false }

// Addr is where the server listens; nil before it does.
func (s *Server) Addr() net.Addr {
	if a := s.address.Load(); a != nil {
		return *a
	}
	return nil
}

// Start serves until ctx ends; calls that have begun are then finished (CA-C04).
func (s *Server) Start(ctx context.Context) error {
	if s.options.Ready != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-s.options.Ready:
		}
	}
	listener, err := listen(ctx, s.options.Address)
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	address := listener.Addr()
	s.address.Store(&address)
	ctrl.LoggerFrom(ctx).Info("serving node groups", "address", address.String(), "insecure", s.options.Insecure)
	following, cancel := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	if s.certificate != nil {
		follower.Go(func() { s.certificate.follow(following) })
	}
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(s.handshakes.listener(listener)) }()
	select {
	case err := <-ended:
		s.stop()
		return err
	case <-ctx.Done():
		s.stop()
		// Serve says so when ctx ended before it began.
		if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil
	}
}

// stop lets calls that have begun finish, for a while.
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

// guard runs before and after every call: who may call, for how long, what the first call of a connection waits for, and what
// a panic becomes (CA-C11).
func (s *Server) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	began := s.options.Clock.Now()
	defer func() {
		if cause := recover(); cause != nil {
			ctrl.LoggerFrom(ctx).Error(fmt.Errorf("%v", cause), "a call panicked", "method", info.FullMethod, "stack", string(debug.Stack()))
			resp, err = nil, status.Error(codes.Internal, "an error of drover's own; its log has the details")
		}
		s.calls.took(info.FullMethod, status.Code(err), s.options.Clock.Since(began))
	}()
	if err := admit(ctx, s.options.AllowedClients); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callDeadline)
		defer cancel()
	}
	welcome(ctx, s.options.Groups, info.FullMethod)
	return next(ctx, req)
}

// guardStream stands before the streams of health and reflection.
func (s *Server) guardStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := admit(stream.Context(), s.options.AllowedClients); err != nil {
		return err
	}
	return next(server, stream)
}
