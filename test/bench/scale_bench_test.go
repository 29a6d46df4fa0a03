package bench

import (
	"context"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	sim "github.com/drover-project/drover/test/openstack"
)

var (
	scale    = flag.Int("machines", 1000, "how many Machines the benchmark of the whole makes")
	profiles = flag.String("profiles", "", "folder for drover's profiles in the benchmark of the whole; empty: none are taken")
)

const (
	// patience is the time limit of each step that a benchmark waits for.
	patience = 5 * time.Minute
	// look is the interval at which a benchmark checks whether a step is complete.
	look = 500 * time.Millisecond
	// restTime is how long the benchmark measures an idle drover.
	restTime = time.Minute
	droverID = "drover-under-test"
	// writers is the number of the bare client's concurrent writers. More of them are not faster, because the API
	// server and the client share the machine.
	writers = 10
)

// BenchmarkFromNothingToAThousandMachines measures the path from setting a size to Ready nodes, without certificates and
// kubelets: the time compared with a bare client that makes as many writes of the same kinds, the writes per Machine,
// the memory, and the CPU use when idle (CAPI-57). In the second sub-benchmark the leader is killed halfway.
// s-without-lease is the time without the wait for the end of the dead leader's lease.
func BenchmarkFromNothingToAThousandMachines(b *testing.B) {
	for _, killed := range []bool{false, true} {
		name := "one leader (CAPI-57)"
		if killed {
			name = "the leader killed in the middle"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				newQuickPlant(b).measure(killed)
			}
		})
	}
}

// quickPlant is a plant with a simulated cloud without latency. A server's node is registered as Ready by one write.
type quickPlant struct {
	*plant
	cloud *sim.Cloud
	nodes sync.WaitGroup
}

func newQuickPlant(b *testing.B) *quickPlant {
	b.Helper()
	p := &quickPlant{plant: newPlant(b, ""), cloud: sim.New(sim.Config{Seed: wide, DeleteTime: time.Millisecond})}
	p.cloud.OnBoot(p.register)
	p.must(p.cloud.Start(context.WithoutCancel(b.Context())))
	p.environment = p.cloud.Environment()
	b.Cleanup(func() { p.nodes.Wait(); p.cloud.Close() })
	return p
}

// register creates the Node of a server, Ready from the start.
func (p *quickPlant) register(s sim.Server) {
	p.nodes.Go(func() {
		if err := p.client.Create(context.Background(), registered(s.Name, "openstack:///"+s.ID)); err != nil {
			p.Errorf("registering node %s: %v", s.Name, err)
		}
	})
}

func (p *quickPlant) deployment(n int) *v1alpha1.MachineDeployment {
	labels := map[string]string{"pool": "bench"}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bench"}}
	d.Spec.Replicas = ptr.To(int32(n))
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec = machine(p, 0).Spec
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	return d
}

// usable returns the number of nodes that have the label with a Machine's UID and no startup taint. While servers are
// missing it does not query the API server, because that would disturb the measurement.
func (p *quickPlant) usable() (n int) {
	if p.cloud.ServerCount() < *scale {
		return 0
	}
	var nodes corev1.NodeList
	p.must(p.client.List(p.Context(), &nodes, client.HasLabels{v1alpha1.LabelManaged}))
	for i := range nodes.Items {
		if !slices.ContainsFunc(nodes.Items[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint }) {
			n++
		}
	}
	return n
}

func (p *quickPlant) measure(kill bool) {
	n := *scale
	d := p.deployment(n)
	drover := p.start()
	p.await("drover leads", p.leads)
	stop := p.profile()
	before := p.spent(drover)
	began := time.Now()
	var waited time.Duration
	p.must(p.client.Create(p.Context(), d))
	if kill {
		p.await("half of the servers", func() bool { return p.cloud.ServerCount() >= n/2 })
		predecessor := *p.lease().Spec.HolderIdentity
		p.must(drover.Process.Kill())
		killed := time.Now()
		drover = p.start()
		waited = p.resumed(predecessor).Sub(killed)
		before.drover = 0
	}
	p.await("every Machine runs", func() bool { return p.usable() == n })
	took := time.Since(began)
	costs := p.spent(drover).minus(before)
	p.single(n)
	p.settles()
	requests, like := p.requests(), p.sample()
	p.atRest(drover, n)
	stop()
	p.must(drover.Process.Kill())
	counts := requests.writes()
	before = p.spent(nil)
	floor := p.bare(counts, like)
	bare := p.spent(nil).minus(before)
	p.Logf("drover's requests for each Machine:\n%s", requests.table(n))
	p.Logf("CPU of the run: %v; of the bare client: %v", costs, bare)
	p.ReportMetric(took.Seconds(), "s")
	if kill {
		p.ReportMetric((took - waited).Seconds(), "s-without-lease")
	}
	p.ReportMetric(took.Seconds()/floor.Seconds(), "x-bare-client")
	p.ReportMetric(costs.drover.Seconds()*1000/float64(n), "ms-drover-CPU/machine")
	p.ReportMetric(float64(counts.all())/float64(n), "writes/machine")
	p.ReportMetric(float64(counts["machines"])/float64(n), "machine-writes/machine")
	p.ReportMetric(float64(requests.reads())/float64(n), "reads/machine")
	p.ReportMetric(0, "ns/op")
}

// resumed measures the time from when the successor takes the lease until it creates its first server. It returns the
// time at which the lease was taken.
func (p *quickPlant) resumed(predecessor string) time.Time {
	p.await("another leader", func() bool { return *p.lease().Spec.HolderIdentity != predecessor })
	held := p.lease().Spec.AcquireTime.Time
	var next time.Time
	p.await("another server", func() bool {
		for _, c := range p.cloud.Calls() {
			if c.Name() == "POST /servers" && c.Time.After(held) {
				next = c.Time
				return true
			}
		}
		return false
	})
	p.ReportMetric(next.Sub(held).Seconds(), "s-from-lease-to-next-server")
	return held
}

// single fails the benchmark when a Machine has two servers, or a server has no Machine.
func (p *quickPlant) single(n int) {
	left := p.cloud.Leftovers()
	if len(left.Servers) != n || len(left.Ports) != n {
		p.Errorf("%d servers and %d ports for %d machines", len(left.Servers), len(left.Ports), n)
	}
}
