package bench

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
)

var scale = flag.Int("machines", 1000, "how many Machines the benchmark of the whole makes")

const (
	// patience bounds each part.
	patience = 15 * time.Minute
	// restTime is how long drover is watched at rest.
	restTime = time.Minute
	droverID = "drover-under-test"
	// writers are the bare client's: as many as drover has workers.
	writers = workers
)

// plant is a real API server, a cloud without latency, and drover as the real program. A server's node is registered by
// one plain write.
type plant struct {
	*testing.B
	control *kube.Cluster
	cloud   *sim.Cloud
	client  client.Client
	dir     string
	drover  string
	nodes   sync.WaitGroup
}

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

func newPlant(b *testing.B) *plant {
	b.Helper()
	ctrl.SetLogger(logr.Discard())
	p := &plant{B: b, dir: b.TempDir(), control: kube.ForTest(b, kube.Options{})}
	scheme := runtime.NewScheme()
	p.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	var err error
	p.client, err = client.New(p.control.Config, client.Options{Scheme: scheme})
	p.must(err)
	p.must(deploy.Apply(b.Context(), p.client))
	p.drover, err = sandbox.Build(b.Context(), p.dir, b.Output())
	p.must(err)
	config, err := p.control.ConfigForUser(droverID, "system:masters")
	p.must(err)
	p.must(kube.WriteKubeconfig(p.kubeconfig(), config))
	p.cloud = sim.New(sim.Config{Seed: wide, DeleteTime: time.Millisecond})
	p.cloud.OnBoot(p.register)
	p.must(p.cloud.Start(context.WithoutCancel(b.Context())))
	b.Cleanup(func() { p.nodes.Wait(); p.cloud.Close() })
	return p
}

func (p *plant) kubeconfig() string { return filepath.Join(p.dir, "drover.kubeconfig") }

func (p *plant) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// register makes a server's node, Ready, with the startup taint.
func (p *plant) register(s sim.Server) {
	p.nodes.Go(func() {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{corev1.LabelHostname: s.Name}},
			Spec: corev1.NodeSpec{
				ProviderID: "openstack:///" + s.ID,
				Taints:     []corev1.Taint{{Key: v1alpha1.DefaultStartupTaint, Effect: corev1.TaintEffectNoSchedule}},
			},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
			}}},
		}
		if err := p.client.Create(context.Background(), n); err != nil {
			p.Errorf("registering node %s: %v", s.Name, err)
		}
	})
}

// start runs drover.
func (p *plant) start() *exec.Cmd {
	p.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, "drover.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	p.must(err)
	cmd := exec.Command(p.drover, "--kubeconfig="+p.kubeconfig(), "--namespace=drover", "--grpc-insecure",
		"--grpc-address=127.0.0.1:0", "--metrics-address=0", "--health-address=0")
	cmd.Env = append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}, p.cloud.Environment()...)
	cmd.Stdout, cmd.Stderr = log, log
	p.must(cmd.Start())
	p.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = log.Close() })
	return cmd
}

func (p *plant) measure(kill bool) {
	n := *scale
	d := p.deployment(n)
	drover := p.start()
	p.must(p.client.Create(p.Context(), d))
	began := time.Now()
	if kill {
		p.await("half of the nodes", func() bool { return p.usable() >= n/2 })
		p.must(drover.Process.Kill())
		died := time.Now()
		drover = p.start()
		p.resumed(died)
	}
	p.await("every Machine runs", func() bool { return p.usable() == n })
	took := time.Since(began)
	p.single(n)
	p.atRest(drover, n)
	writes, counts := p.writes()
	for line, count := range counts {
		p.Logf("%6.2f %s", float64(count)/float64(n), line)
	}
	p.must(drover.Process.Kill())
	floor := p.bare(counts)
	p.ReportMetric(took.Seconds(), "s")
	p.ReportMetric(took.Seconds()/floor.Seconds(), "x-bare-client")
	p.ReportMetric(float64(writes)/float64(n), "writes/machine")
	p.ReportMetric(float64(counts["machines"])/float64(n), "machine-writes/machine")
	p.ReportMetric(0, "ns/op")
}

func (p *plant) deployment(n int) *v1alpha1.MachineDeployment {
	labels := map[string]string{"pool": "bench"}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bench"}}
	d.Spec.Replicas = ptr.To(int32(n))
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec = machine(p, 0).Spec
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	return d
}

func (p *plant) await(what string, so func() bool) {
	p.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(500 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(p.dir, "drover.log"))
			p.Fatalf("not within %v: %s: %d now\n%s", patience, what, p.usable(), log[max(0, len(log)-3000):])
		}
	}
}

// usable counts nodes that bear a Machine's mark and no startup taint any more.
func (p *plant) usable() (n int) {
	var nodes corev1.NodeList
	p.must(p.client.List(p.Context(), &nodes, client.HasLabels{v1alpha1.LabelOwnedBy}))
	for i := range nodes.Items {
		if !slices.ContainsFunc(nodes.Items[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint }) {
			n++
		}
	}
	return n
}

// resumed measures how long after the successor has taken the lease it makes its first server.
func (p *plant) resumed(died time.Time) {
	made := len(p.cloud.Servers())
	p.await("another server", func() bool { return len(p.cloud.Servers()) > made })
	p.ReportMetric(time.Since(died).Seconds(), "s-from-kill-to-next-server")
}

// single: no server twice, and none without a Machine.
func (p *plant) single(n int) {
	left := p.cloud.Leftovers()
	if len(left.Servers) != n || len(left.Ports) != n {
		p.Errorf("%d servers and %d ports for %d machines", len(left.Servers), len(left.Ports), n)
	}
}

// atRest measures memory, and CPU in a minute in which nothing happens.
func (p *plant) atRest(drover *exec.Cmd, n int) {
	time.Sleep(20 * time.Second)
	before := p.cpu(drover)
	time.Sleep(restTime)
	share := (p.cpu(drover) - before).Seconds() / restTime.Seconds()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", drover.Process.Pid))
	p.must(err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			p.must(err)
			allowed := 60_000 + 20*n
			p.ReportMetric(float64(kib)/1000, "MB-RSS")
			p.ReportMetric(float64(kib)/float64(allowed), "x-memory-target")
		}
	}
	p.ReportMetric(100*share, "%core-at-rest")
}

// cpu is the time that a process has used: fields 14 and 15 of its stat, in hundredths of a second.
func (p *plant) cpu(cmd *exec.Cmd) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	p.must(err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	var ticks int
	for _, i := range []int{11, 12} {
		n, err := strconv.Atoi(fields[i])
		p.must(err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// writes counts drover's, by resource; Events, leases and approvals apart.
func (p *plant) writes() (all int, counts map[string]int) {
	requests, err := p.control.Requests()
	p.must(err)
	counts = map[string]int{}
	for _, r := range requests {
		if r.User != droverID || !slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) || r.Code >= 300 ||
			slices.Contains([]string{"events", "leases", "certificatesigningrequests"}, r.Resource) {
			continue
		}
		all++
		counts[r.Resource]++
		counts["  "+r.Verb+" "+r.Resource+cmp.Or("/"+r.Subresource, "")]++
	}
	return all, counts
}

// bare is the time that a client with nothing to decide needs for as many writes: Machines and Secrets as they are made
// and patched, Nodes as they are registered and patched.
func (p *plant) bare(counts map[string]int) time.Duration {
	n := *scale
	each := map[string]int{}
	for resource, count := range counts {
		each[resource] = (count + n/2) / n
	}
	work := make(chan int)
	var all sync.WaitGroup
	began := time.Now()
	for range writers {
		all.Go(func() {
			for i := range work {
				p.bareMachine(i, each)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	return time.Since(began)
}

func (p *plant) bareMachine(i int, each map[string]int) {
	ctx, name := p.Context(), fmt.Sprintf("bare-%d", i)
	m := machine(p, i)
	m.Namespace, m.Name, m.UID = metav1.NamespaceDefault, name, ""
	m.Spec.Versions.Kubelet = "1.37.1"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, StringData: map[string]string{"a": "b"}}
	for _, o := range []struct {
		object  client.Object
		writes  int
		present bool
	}{{m, each["machines"], true}, {node, each["nodes"] + 1, true}, {secret, each["secrets"], each["secrets"] > 0}} {
		if !o.present {
			continue
		}
		if err := p.client.Create(ctx, o.object); err != nil {
			p.Errorf("the bare client: %v", err)
			return
		}
		for w := range o.writes - 1 {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"bare":"%d"}}}`, w)
			if err := p.client.Patch(ctx, o.object, client.RawPatch(types.MergePatchType, patch)); err != nil {
				p.Errorf("the bare client: %v", err)
				return
			}
		}
	}
}
