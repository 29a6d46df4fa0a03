package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
	dir := p.TempDir()
	config, err := p.kube.ConfigForUser(user, groups...)
	must(p.T, err)
	file := filepath.Join(dir, "kubeconfig")
	must(p.T, kube.WriteKubeconfig(file, config))
	cmd := exec.Command(os.Args[0], append([]string{"--kubeconfig=" + file, "--grpc-insecure", "--grpc-address=" + socketAddress(p.T),
		"--metrics-address=0", "--health-address=0", "--bootstrap-api-server=https://127.0.0.1:1"}, flags...)...)
	cmd.Env = append([]string{asDrover + "=1", "HOME=" + dir}, p.cloud.Environment()...)
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	must(p.T, cmd.Start())
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.Failed() {
			p.Logf("%s:\n%s", user, log)
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
	err := wait.PollUntilContextTimeout(p.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(), nil })
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

// recorded returns how many Machines have a provider ID.
func (p *pair) recorded() (n int) {
	var list v1alpha1.MachineList
	must(p.T, p.client.List(p.Context(), &list))
	for i := range list.Items {
		if list.Items[i].Spec.ProviderID != nil {
			n++
		}
	}
	return n
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

// wrote returns the writes of a user between two times, except those of leases and Events.
func (p *pair) wrote(user string, from, to time.Time) (writes []string) {
	requests, err := p.kube.Requests()
	must(p.T, err)
	for _, r := range requests {
		if r.User == user && r.Wrote() && r.Resource != "leases" && r.Resource != "events" && r.At.After(from) && r.At.Before(to) {
			writes = append(writes, r.Verb+" "+r.URI)
		}
	}
	return writes
}

// midway starts two replicas, creates n Machines, and returns the leading process once it has created some of their servers.
func (p *pair) midway(n int) *exec.Cmd {
	p.Helper()
	first := p.replica("first")
	p.until("the first one leads", func() bool { return p.lease().Spec.HolderIdentity != nil })
	p.replica("second")
	p.machines(n)
	p.until("it has made some servers", func() bool { return p.accepted("POST /servers") >= 3 })
	return first
}

func TestALeaderThatIsSuspendedWhileItCreatesServers(t *testing.T) {
	t.Parallel()
	const n = 60
	p := newPair(t)
	first := p.midway(n)
	must(t, first.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	p.until("its lease is too old to make anything", func() bool { return time.Since(stopped) > leaseFresh })
	// The test takes the lease from the suspended leader, instead of waiting until it expires.
	taken := p.handOver()
	must(t, first.Process.Signal(syscall.SIGCONT))
	p.until("every Machine has its server", func() bool { return p.recorded() == n })

	t.Run("each Machine has one server and one port in the end, and no other server was requested (MC-78, MCM-109)", func(t *testing.T) { p.once(t, n) })
	t.Run("the second replica wrote nothing before it was leader, and no replica called the cloud while there was no leader (MC-78)", func(t *testing.T) {
		if w := p.wrote("second", time.Time{}, taken); len(w) > 0 {
			t.Errorf("it wrote %q", w)
		}
		for _, c := range p.cloud.Calls() {
			// Requests that the first leader had sent before it was suspended are still carried out.
			if c.Time.After(stopped.Add(time.Second)) && c.Time.Before(taken) {
				t.Errorf("%s at %v, when nobody led (from %v to %v)", c.Name(), c.Time, stopped, taken)
			}
		}
	})
	t.Run("the second replica calls the cloud within 5 seconds after it became leader (CAPI-56)", func(t *testing.T) { p.resumed(t, taken) })
}

// handOver takes the lease from its holder. It returns when the other replica has taken the lease.
func (p *pair) handOver() time.Time {
	l := p.lease()
	holder := *l.Spec.HolderIdentity
	*l.Spec.HolderIdentity = ""
	must(p.T, p.client.Update(p.Context(), l))
	p.until("the other one leads", func() bool { h := *p.lease().Spec.HolderIdentity; return h != "" && h != holder })
	return p.lease().Spec.AcquireTime.Time
}

// once fails the test unless one server was requested for each Machine, and each server has one port. When the first leader
// left a port without a server, the port must be deleted before it is created again, because a server whose create request has
// an unknown outcome may use it (F-21).
func (p *pair) once(t *testing.T, n int) {
	t.Helper()
	left := p.cloud.Leftovers()
	if s := p.accepted("POST /servers"); s != n || len(left.Servers) != n || len(left.Ports) != n {
		t.Errorf("made %d servers for %d Machines; there are %d, and %d ports", s, n, len(left.Servers), len(left.Ports))
	}
	if made, deleted := p.accepted("POST /ports"), p.accepted("DELETE /ports/{id}"); made != n+deleted {
		t.Errorf("made %d ports for %d Machines and deleted %d", made, n, deleted)
	}
}

// resumed fails the test unless the new leader called the cloud within five seconds after it took the lease.
func (p *pair) resumed(t *testing.T, taken time.Time) {
	t.Helper()
	for _, c := range p.cloud.Calls() {
		if c.Time.After(taken) {
			if took := c.Time.Sub(taken); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			return
		}
	}
	t.Error("it asked nothing at all")
}

func TestALeaderThatStopsWhileItCreatesServers(t *testing.T) {
	t.Parallel()
	const n = 12
	p := newPair(t)
	first := p.midway(n)
	must(t, first.Process.Signal(syscall.SIGTERM))
	must(t, first.Wait())
	p.until("every Machine has its server", func() bool { return p.recorded() == n })
	t.Run("the next leader calls the cloud within 5 seconds, and no server is requested twice (CAPI-56)", func(t *testing.T) {
		p.resumed(t, p.lease().Spec.AcquireTime.Time)
		p.once(t, n)
	})
}
