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

	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/proto"
)

// stub are node groups with one answer.
type stub struct {
	mu sync.Mutex
	// err is what everything that can fail fails with.
	err       error
	groups    []nodegroup.Group
	owner     nodegroup.Group
	owned     bool
	instances []nodegroup.Instance
	template  []byte
	size      int32
	// asked is what the last call brought.
	id      string
	delta   int32
	nodes   []nodegroup.Node
	panics  bool
	held    chan struct{}
	started chan struct{}
}

func (s *stub) note(id string, delta int32, nodes ...nodegroup.Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.delta, s.nodes = id, delta, nodes
	if s.panics {
		panic("on purpose")
	}
	return s.err
}

func (s *stub) Refresh(context.Context) error { return s.note("", 0) }
func (s *stub) List() []nodegroup.Group       { return s.groups }
func (s *stub) ForNode(n nodegroup.Node) (nodegroup.Group, bool) {
	_ = s.note("", 0, n)
	return s.owner, s.owned
}
func (s *stub) TargetSize(id string) (int32, error) { return s.size, s.note(id, 0) }
func (s *stub) Instances(id string) ([]nodegroup.Instance, error) {
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
func (s *stub) DeleteNodes(_ context.Context, id string, nodes []nodegroup.Node) error {
	return s.note(id, 0, nodes...)
}
func (s *stub) DecreaseTargetSize(_ context.Context, id string, delta int32) error {
	return s.note(id, delta)
}

// serving runs a server until the test ends, and gives its address and a way to end it.
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
	deadline := time.Now().Add(5 * time.Second)
	for s.Addr() == nil {
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %v", stop())
		}
		time.Sleep(time.Millisecond)
	}
	return s.Addr(), stop
}

// dial connects as the autoscaler does.
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

// connect gives a client of a plaintext server over these groups.
func connect(t testing.TB, groups Groups) proto.CloudProviderClient {
	t.Helper()
	address, _ := serving(t, Options{Groups: groups, Insecure: true})
	return proto.NewCloudProviderClient(dial(t, address, nil))
}
