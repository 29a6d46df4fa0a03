package bench

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
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
	sim "github.com/drover-project/drover/test/openstack"
	"github.com/drover-project/drover/test/sandbox"
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
	// metrics is where drover serves its metrics, pprof its profiles (empty: nowhere).
	metrics, pprof string
	nodes          sync.WaitGroup
}

func newPlant(b *testing.B) *plant {
	b.Helper()
	ctrl.SetLogger(logr.Discard())
	p := &plant{B: b, dir: b.TempDir(), control: kube.ForTest(b, kube.Options{
		// No controller is there that would remove its taint from Ready nodes.
		APIServerFlags: []string{"--disable-admission-plugins=TaintNodesByCondition"},
	})}
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
	p.metrics = freeAddress(b)
	if *profiles != "" {
		p.pprof = freeAddress(b)
	}
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
		if err := p.client.Create(context.Background(), registered(s.Name, "openstack:///"+s.ID)); err != nil {
			p.Errorf("registering node %s: %v", s.Name, err)
		}
	})
}

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
	log, err := os.OpenFile(filepath.Join(p.dir, "drover.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	p.must(err)
	cmd := exec.Command(p.drover, "--kubeconfig="+p.kubeconfig(), "--namespace=drover", "--grpc-insecure",
		"--grpc-address=127.0.0.1:0", "--metrics-address="+p.metrics, "--health-address=0", "--pprof-address="+p.pprof)
	cmd.Env = append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}, p.cloud.Environment()...)
	if p.pprof != "" {
		cmd.Env = append(cmd.Env, "GODEBUG=memprofilerate=4096")
	}
	cmd.Stdout, cmd.Stderr = log, log
	p.must(cmd.Start())
	p.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = log.Close() })
	return cmd
}

// freeAddress is one that nobody listens on yet.
func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
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

// usable counts nodes that bear a Machine's mark and no startup taint any more. While servers are missing it does not look
// at the API server, whose time is what is measured.
func (p *plant) usable() (n int) {
	if len(p.cloud.Servers()) < *scale {
		return 0
	}
	var nodes corev1.NodeList
	p.must(p.client.List(p.Context(), &nodes, client.HasLabels{v1alpha1.LabelOwnedBy}))
	for i := range nodes.Items {
		if !slices.ContainsFunc(nodes.Items[i].Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint }) {
			n++
		}
	}
	return n
}
