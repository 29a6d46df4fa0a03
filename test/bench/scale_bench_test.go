package bench

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	scale    = flag.Int("machines", 1000, "how many Machines the benchmark of the whole makes")
	profiles = flag.String("profiles", "", "folder for drover's profiles in the benchmark of the whole; empty: none are taken")
)

const (
	// patience bounds each part.
	patience = 5 * time.Minute
	// look is how often the outcome is looked for.
	look = 500 * time.Millisecond
	// restTime is how long drover is watched at rest.
	restTime = time.Minute
	droverID = "drover-under-test"
	// writers are the bare client's. More of them are not faster: the API server and the client share the machine.
	writers = 10
)

// BenchmarkFromNothingToAThousandMachines is the line of the issues from a size to Ready nodes, without certificates and
// kubelets: time against a bare client with as many writes of the same kinds, writes for each Machine, memory, CPU at
// rest. In the second half the leader is killed in the middle.
func BenchmarkFromNothingToAThousandMachines(b *testing.B) {
	for _, killed := range []bool{false, true} {
		name := "one leader"
		if killed {
			name = "the leader killed in the middle"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				newPlant(b).measure(killed)
			}
		})
	}
}

func (p *plant) measure(kill bool) {
	n := *scale
	d := p.deployment(n)
	drover := p.start()
	p.await("drover leads", p.leads)
	stop := p.profile()
	before := p.spent(drover)
	began := time.Now()
	p.must(p.client.Create(p.Context(), d))
	if kill {
		p.await("half of the servers", func() bool { return len(p.cloud.Servers()) >= n/2 })
		predecessor := *p.lease().Spec.HolderIdentity
		p.must(drover.Process.Kill())
		drover = p.start()
		p.resumed(predecessor)
		before.drover = 0
	}
	p.await("every Machine runs", func() bool { return p.usable() == n })
	took := time.Since(began)
	costs := p.spent(drover).minus(before)
	p.single(n)
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
	p.ReportMetric(took.Seconds()/floor.Seconds(), "x-bare-client")
	p.ReportMetric(costs.drover.Seconds()*1000/float64(n), "ms-drover-CPU/machine")
	p.ReportMetric(float64(counts.all())/float64(n), "writes/machine")
	p.ReportMetric(float64(counts["machines"])/float64(n), "machine-writes/machine")
	p.ReportMetric(0, "ns/op")
}

func (p *plant) await(what string, so func() bool) {
	p.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(look) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(p.dir, "drover.log"))
			p.Fatalf("not within %v: %s: %d now\n%s", patience, what, p.usable(), log[max(0, len(log)-3000):])
		}
	}
}

// leads tells whether a drover holds the lease.
func (p *plant) leads() bool { return p.lease() != nil }

// lease is the one that drover holds; nil while none does.
func (p *plant) lease() *coordinationv1.Lease {
	var l coordinationv1.Lease
	err := p.client.Get(p.Context(), client.ObjectKey{Namespace: "drover", Name: "drover"}, &l)
	p.must(client.IgnoreNotFound(err))
	if err != nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" {
		return nil
	}
	return &l
}

// resumed measures how long after the successor has taken the lease it makes its first server.
func (p *plant) resumed(predecessor string) {
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
}

// single: no server twice, and none without a Machine.
func (p *plant) single(n int) {
	left := p.cloud.Leftovers()
	if len(left.Servers) != n || len(left.Ports) != n {
		p.Errorf("%d servers and %d ports for %d machines", len(left.Servers), len(left.Ports), n)
	}
}
