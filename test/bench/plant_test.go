package bench

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/sandbox"
)

// plant is a real API server with the real drover program, whose cloud each benchmark chooses.
type plant struct {
	*testing.B
	control *kube.Cluster
	client  client.Client
	dir     string
	// drover is the path of the program. environment holds the variables with which drover finds the cloud.
	drover      string
	environment []string
	// metrics is the address where drover serves its metrics. pprof is the address of its profiles; empty means that
	// it serves none.
	metrics, pprof string
}

// newPlant starts the API server. drover is the path of the program; empty means that newPlant builds it.
func newPlant(b *testing.B, drover string) *plant {
	b.Helper()
	ctrl.SetLogger(logr.Discard())
	p := &plant{B: b, drover: drover, dir: b.TempDir(), control: kube.ForTest(b, kube.Options{
		// The plugin TaintNodesByCondition puts the taint not-ready on new Nodes. No controller runs that would remove it.
		APIServerFlags: []string{"--disable-admission-plugins=TaintNodesByCondition"},
	})}
	scheme := runtime.NewScheme()
	p.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	var err error
	p.client, err = client.New(p.control.Config, client.Options{Scheme: scheme})
	p.must(err)
	p.must(deploy.Apply(b.Context(), p.client))
	if drover == "" {
		p.drover, err = sandbox.Build(b.Context(), p.dir, b.Output())
		p.must(err)
	}
	config, err := p.control.ConfigForUser(droverID, "system:masters")
	p.must(err)
	p.must(kube.WriteKubeconfig(p.kubeconfig(), config))
	p.metrics = freeAddress(b)
	if *profiles != "" {
		p.pprof = "127.0.0.1:6060"
	}
	return p
}

func (p *plant) kubeconfig() string { return filepath.Join(p.dir, "drover.kubeconfig") }
func (p *plant) droverLog() string  { return filepath.Join(p.dir, "drover.log") }

func (p *plant) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// registered returns the Node of a server that starts instantly: Ready, with the startup taint.
func registered(name, providerID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec: corev1.NodeSpec{
			ProviderID: providerID,
			Taints:     []corev1.Taint{{Key: v1alpha1.DefaultStartupTaint, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		}}},
	}
}

// start runs drover.
func (p *plant) start() *exec.Cmd {
	p.Helper()
	log, err := os.OpenFile(p.droverLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	p.must(err)
	features := "grpc-insecure"
	if p.pprof != "" {
		features += ",profiling"
	}
	cmd := exec.Command(p.drover, "--kubeconfig="+p.kubeconfig(), "--namespace=drover", "--features="+features,
		"--grpc-address=127.0.0.1:0", "--metrics-address="+p.metrics, "--health-address=0")
	cmd.Env = append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}, p.environment...)
	if p.pprof != "" {
		cmd.Env = append(cmd.Env, "GODEBUG=memprofilerate=4096")
	}
	cmd.Stdout, cmd.Stderr = log, log
	p.must(cmd.Start())
	p.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = log.Close() })
	return cmd
}

// freeAddress returns an address on which no process listens yet.
func freeAddress(b *testing.B) string {
	b.Helper()
	address, err := kube.FreeAddress()
	if err != nil {
		b.Fatal(err)
	}
	return address
}

// await checks so() every half second until it is true. After five minutes it ends the benchmark with drover's last log lines.
func (p *plant) await(what string, so func() bool) {
	p.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(look) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(p.droverLog())
			p.Fatalf("not within %v: %s\n%s", patience, what, log[max(0, len(log)-3000):])
		}
	}
}

// leads reports whether a drover process holds drover's lease.
func (p *plant) leads() bool { return p.lease() != nil }

// lease returns drover's lease, or nil while no drover holds it.
func (p *plant) lease() *coordinationv1.Lease {
	var l coordinationv1.Lease
	err := p.client.Get(p.Context(), client.ObjectKey{Namespace: "drover", Name: "drover"}, &l)
	p.must(client.IgnoreNotFound(err))
	if err != nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" {
		return nil
	}
	return &l
}
