package autoscale

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/nodegroup/model/membership"
	"github.com/drover-project/drover/proto"
)

// stub is Groups with fixed answers.
type stub struct {
	mu sync.Mutex
	// err is the error of every call that can fail.
	err error
	// untrusted is the result of Trusted.
	untrusted error
	groups    []model.Listing
	owner     model.Listing
	owned     bool
	instances []model.Instance
	template  []byte
	size      int32
	// settings are the options of every group. own is true when the groups have options of their own. price is the price of
	// every node and pod; 0 means that prices are unknown.
	settings model.Settings
	own      bool
	price    float64
	pod      *corev1.Pod
	gpuTypes []string
	// connections counts the clients that have connected. When connecting is not nil, clients wait until that channel is
	// closed.
	connections int
	connecting  chan struct{}
	// defaults is the argument of the last call of Settings. start and end are the arguments of the last call for a price.
	// starts counts the autoscalers that have started.
	defaults   model.Settings
	start, end time.Time
	starts     int
	// left is how much time the last Refresh had until its deadline; 0 means that it had no deadline.
	left time.Duration
	// id, delta and nodes are the arguments of the last recorded call; zero for an argument that the call does not have.
	id      string
	delta   int32
	nodes   []membership.Node
	panics  bool
	held    chan struct{}
	started chan struct{}
}

func (s *stub) note(id string, delta int32, nodes ...membership.Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.delta, s.nodes = id, delta, nodes
	if s.panics {
		panic("on purpose")
	}
	return s.err
}

func (s *stub) Refresh(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok {
		s.left = time.Until(end)
	}
	return s.note("", 0)
}

func (s *stub) Trusted() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untrusted
}

func (s *stub) distrust(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untrusted = why
}

func (s *stub) List() []model.Listing { return s.groups }
func (s *stub) ForNode(n membership.Node) (model.Listing, bool) {
	_ = s.note("", 0, n)
	return s.owner, s.owned
}
func (s *stub) TargetSize(id string) (int32, error) { return s.size, s.note(id, 0) }
func (s *stub) Instances(id string) ([]model.Instance, error) {
	return s.instances, s.note(id, 0)
}
func (s *stub) TemplateNode(id string) ([]byte, error) { return s.template, s.note(id, 0) }
func (s *stub) IncreaseSize(_ context.Context, id string, delta int32) error {
	if s.held != nil {
		close(s.started)
		<-s.held
	}
	return s.note(id, delta)
}
func (s *stub) DeleteNodes(_ context.Context, id string, nodes []membership.Node) error {
	return s.note(id, 0, nodes...)
}
func (s *stub) DecreaseTargetSize(_ context.Context, id string, delta int32) error {
	return s.note(id, delta)
}

func (s *stub) Settings(_ string, defaults model.Settings) (model.Settings, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.defaults = defaults
	return s.settings, s.own
}

func (s *stub) NodePrice(n membership.Node, start, end time.Time) (float64, error) {
	s.start, s.end = start, end
	return s.costs(s.note("", 0, n))
}

func (s *stub) PodPrice(pod *corev1.Pod, start, end time.Time) (float64, error) {
	s.pod, s.start, s.end = pod, start, end
	return s.costs(s.note("", 0))
}

func (s *stub) costs(err error) (float64, error) {
	if err == nil && s.price == 0 {
		err = &model.Error{Kind: model.Unimplemented}
	}
	return s.price, err
}

func (s *stub) Connected(context.Context) {
	s.mu.Lock()
	s.connections++
	wait := s.connecting
	s.mu.Unlock()
	if wait != nil {
		<-wait
	}
}

func (s *stub) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

func (s *stub) lastID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (s *stub) GPUTypes() []string { return s.gpuTypes }

func (s *stub) Started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
}

// serving runs a server until the test ends. It returns the server's address and a function that stops it.
func serving(t testing.TB, o Options) (address net.Addr, stop func() error) {
	t.Helper()
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	var once sync.Once
	var failure error
	stop = func() error {
		once.Do(func() {
			cancel()
			failure = <-ended
		})
		return failure
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	if !listens(t, s, 5*time.Second) {
		t.Fatalf("the server does not listen: %v", stop())
	}
	return s.Addr(), stop
}

// listens waits until the server listens, for at most the given time, and reports whether it does.
func listens(t testing.TB, s *Server, within time.Duration) bool {
	t.Helper()
	return eventually(t, within, func() bool { return s.Addr() != nil })
}

// eventually waits until so returns true, for at most the given time, and reports whether it did.
func eventually(t testing.TB, within time.Duration, so func() bool) bool {
	t.Helper()
	return wait.PollUntilContextTimeout(t.Context(), time.Millisecond, within, true, func(context.Context) (bool, error) {
		return so(), nil
	}) == nil
}

// dial connects to the address in the same way as the autoscaler.
func dial(t testing.TB, address net.Addr, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	target := address.String()
	if address.Network() == "unix" {
		target = unixScheme + target
	} else {
		target = "passthrough:///" + target
	}
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connect returns a client of a plaintext server for the groups.
func connect(t testing.TB, groups Groups) proto.CloudProviderClient {
	t.Helper()
	address, _ := serving(t, Options{Groups: groups, Insecure: true})
	return proto.NewCloudProviderClient(dial(t, address, nil))
}
