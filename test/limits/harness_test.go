//go:build cluster

package limits

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/proto"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
	"github.com/drover-project/drover/test/sandbox/scenario"
)

const (
	// patience is how long something may take that certainly happens.
	patience = 3 * time.Minute
	// probeTimeout is how long a kubelet waits for the answer to a probe, by default.
	probeTimeout = time.Second
	// attacker is the address of the clients without credentials. Other clients have the address 127.0.0.1.
	attacker = "127.0.0.2"
)

// world is a sandbox whose drover runs in a memory cgroup, and whose cloud makes no server.
type world struct {
	*testing.T
	*sandbox.Sandbox
	cgroup cgroup
	// template is the node group of the demo.
	template *v1alpha1.MachineDeployment
	health   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cgroup: newCgroup(t, *limit<<20), health: freePort(t)}
	program := *binary
	if program == "" {
		var err error
		program, err = sandbox.Build(t.Context(), t.TempDir(), t.Output())
		must(t, err)
	}
	w.Sandbox = sandbox.ForTest(t, sandbox.Options{
		Drover: w.cgroup.wrapper(t, t.TempDir(), program), HealthAddress: w.health, NoAutoscaler: true,
		Seed: func(c *openstack.Cloud) {
			openstack.SeedMetaKube(c)
			c.SetQuota(openstack.MetaKubeProject, openstack.Quota{Instances: openstack.None})
		},
	})
	asked, err := discovery.NewDiscoveryClientForConfig(w.Cluster.Config)
	must(t, err)
	version, err := asked.ServerVersion()
	must(t, err)
	w.template, err = scenario.Deployment(version.GitVersion)
	must(t, err)
	return w
}

// freePort returns an address on loopback on which no process listens.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := kube.FreeAddress()
	must(t, err)
	return address
}

// check fails the test unless drover runs, answers its probes as fast as a kubelet wants, and answers the autoscaler.
func (w *world) check(t *testing.T) {
	t.Helper()
	t.Logf("the peak of drover's memory is %d MiB", w.cgroup.peak(t))
	for _, page := range []string{"/healthz", "/readyz"} {
		if code := w.probe(t, "http://"+w.health+page); code != http.StatusOK {
			t.Errorf("%s answers with the status %d", page, code)
		}
	}
	if code := w.probe(t, "http://"+w.MetricsAddress()+"/metrics"); code != http.StatusOK {
		t.Errorf("/metrics answers with the status %d", code)
	}
	conn := w.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := proto.NewCloudProviderClient(conn).NodeGroups(ctx, &proto.NodeGroupsRequest{}); err != nil {
		t.Errorf("the autoscaler's call: %v", err)
	}
}

// probe returns the HTTP status of a page; 0 when there is no answer in time.
func (w *world) probe(t *testing.T, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	must(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	must(t, response.Body.Close())
	return response.StatusCode
}

// dial returns a connection with the autoscaler's certificate.
func (w *world) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := w.Dial()
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// flood opens connections from the attacker's address, sends unfinished headers of that many bytes on each, and keeps the
// connections open until the test ends. It returns when drover has taken or refused all bytes.
func flood(t *testing.T, address string, connections, bytes int) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attacker)}, Timeout: 10 * time.Second}
	line := "X-Padding: " + strings.Repeat("x", 1000) + "\r\n"
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			conn, err := dialer.DialContext(t.Context(), "tcp", address)
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: drover\r\n")); err != nil {
				return
			}
			for sent := 0; sent < bytes; sent += len(line) {
				if _, err := conn.Write([]byte(line)); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// calls sends calls with a body of that many bytes at the same time, and returns how many drover has refused because of their size.
func calls(t *testing.T, conn *grpc.ClientConn, count, bytes int) int {
	t.Helper()
	body := make([]byte, bytes)
	var all sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range count {
		all.Go(func() {
			_, err := proto.NewCloudProviderClient(conn).PricingPodPrice(t.Context(), &proto.PricingPodPriceRequest{PodBytes: body})
			mu.Lock()
			defer mu.Unlock()
			if status.Code(err) == codes.ResourceExhausted {
				refused++
			}
		})
	}
	all.Wait()
	return refused
}

// fat returns a paused Machine whose provider spec has more than that many bytes.
func (w *world) fat(n, bytes int) *v1alpha1.Machine {
	m := scenario.Single(w.template, fmt.Sprintf("fat-%d", n))
	m.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	raw := string(m.Spec.ProviderSpec.Value.Raw)
	m.Spec.ProviderSpec.Value.Raw = fmt.Appendf(nil, `{"padding":%q,%s`, strings.Repeat("x", bytes), raw[1:])
	return m
}

func (w *world) until(what string, ok func(context.Context) bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) { return ok(ctx), nil })
	if err != nil {
		w.Fatalf("waiting until %s: %v", what, err)
	}
}
