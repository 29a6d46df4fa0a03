package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
	sim "github.com/drover-project/drover/test/openstack"
)

// asDrover is an environment variable. When it is set, the test binary runs as drover, so that a test can start it as a
// process.
const asDrover = "DROVER_TEST_IS_DROVER"

func TestMain(m *testing.M) {
	if os.Getenv(asDrover) != "" {
		main()
		return
	}
	if os.Getenv(asLogger) != "" {
		logEverything()
		return
	}
	if url := os.Getenv(asReader); url != "" {
		readVerbosely(url)
		return
	}
	os.Exit(m.Run())
}

// pair is a cluster and a cloud with two replicas of drover.
type pair struct {
	*testing.T
	kube   *kube.Cluster
	client client.Client
	cloud  *sim.Cloud
}

func newPair(t *testing.T) *pair {
	t.Helper()
	cloud := sim.New(sim.Config{Seed: sim.SeedMetaKube, Latency: 100 * time.Millisecond})
	must(t, cloud.Start(t.Context()))
	t.Cleanup(cloud.Close)
	return newPairAt(t, cloud)
}

// newPairAt returns a pair with a new cluster and a cloud that already runs.
func newPairAt(t *testing.T, cloud *sim.Cloud) *pair {
	t.Helper()
	p := &pair{T: t, kube: kube.ForTest(t, kube.Options{}), cloud: cloud}
	kinds := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)))
	var err error
	p.client, err = client.New(p.kube.Config, client.Options{Scheme: kinds})
	must(t, err)
	must(t, deploy.Apply(t.Context(), p.client, "crds"))
	must(t, p.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}))
	return p
}

// replica starts a drover as the given user, which has all permissions. It appends flags to the command line.
func (p *pair) replica(user string, flags ...string) *exec.Cmd {
	p.Helper()
	return p.replicaAs(user, []string{"system:masters"}, flags...)
}

// replicaAs starts a drover as the given user, a member of groups. It appends flags to the command line. Its output is in the
// command's Stdout, a *strings.Builder, which may be read once the command has ended.
func (p *pair) replicaAs(user string, groups []string, flags ...string) *exec.Cmd {
	p.Helper()
	config, err := p.kube.ConfigForUser(user, groups...)
	must(p.T, err)
	return p.replicaWith(user, config, flags...)
}

// replicaWith starts a drover that signs in with the given configuration, like replicaAs. name is for the test's output.
func (p *pair) replicaWith(name string, config *rest.Config, flags ...string) *exec.Cmd {
	p.Helper()
	dir := p.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	must(p.T, kube.WriteKubeconfig(file, config))
	cmd := exec.Command(os.Args[0], append([]string{"--kubeconfig=" + file, "--grpc-address=" + socketAddress(p.T),
		"--metrics-address=0", "--health-address=0", "--bootstrap-api-server=https://127.0.0.1:1"}, flags...)...)
	cmd.Env = append([]string{asDrover + "=1", "HOME=" + dir}, p.cloud.Environment()...)
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	must(p.T, cmd.Start())
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.Failed() {
			p.Logf("%s:\n%s", name, log)
		}
	})
	return cmd
}

// socketAddress returns the address of a new Unix socket for --grpc-address. The folder is not that of [testing.T.TempDir], because its
// path contains the name of the test: a comma in it would separate two addresses, and a long name would exceed the limit of a socket's path.
func socketAddress(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return "unix://" + filepath.Join(dir, "grpc")
}

func (p *pair) machines(n int) {
	p.Helper()
	for i := range n {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: fmt.Sprintf("m%d", i)}}
		m.Spec.Versions.Kubelet = "1.37.1"
		m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(providerSpec)}
		must(p.T, p.client.Create(p.Context(), m))
	}
}

func (p *pair) until(what string, ok func() bool) {
	p.Helper()
	p.within(time.Minute, what, ok)
}

func (p *pair) within(limit time.Duration, what string, ok func() bool) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.Context(), 20*time.Millisecond, limit, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		p.Fatalf("waiting until %s: %v", what, err)
	}
}

func (p *pair) lease() *coordinationv1.Lease {
	l := &coordinationv1.Lease{}
	if err := p.client.Get(p.Context(), client.ObjectKey{Namespace: "drover", Name: leaseName}, l); client.IgnoreNotFound(err) != nil {
		p.Fatal(err)
	}
	return l
}

// accepted returns how many cloud calls with the given name, such as POST /servers, have succeeded.
func (p *pair) accepted(name string) (n int) {
	for _, c := range p.cloud.Calls() {
		if c.Name() == name && c.Status >= 200 && c.Status < 300 {
			n++
		}
	}
	return n
}
