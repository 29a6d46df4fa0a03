//go:build cluster

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/adoption"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/machinecontroller"
	sim "github.com/drover-project/drover/test/openstack"
)

// Each stage states how far machine-controller had come with a Machine when it stopped.
var (
	joined    = machinecontroller.Stage{Server: true, Recorded: true, ProviderID: true, Node: true}
	external  = machinecontroller.Stage{Server: true, Recorded: true, Node: true}
	addressed = machinecontroller.Stage{Server: true, Address: true, Noted: true, Recorded: true, ProviderID: true, Node: true}
	unnoted   = machinecontroller.Stage{Server: true, Address: true, Recorded: true, ProviderID: true, Node: true}
	nodeless  = machinecontroller.Stage{Server: true, Recorded: true}
	bare      = machinecontroller.Stage{Server: true}
	nothing   = machinecontroller.Stage{}
	going     = machinecontroller.Stage{Server: true, Recorded: true, ProviderID: true, Node: true, Deleted: true}
	goingIP   = machinecontroller.Stage{Server: true, Address: true, Noted: true, Recorded: true, ProviderID: true, Node: true, Deleted: true}
)

// some describes n Machines that machine-controller has left in the same stage.
type some struct {
	n     int
	stage machinecontroller.Stage
}

// legacy is a cluster in the state in which machine-controller leaves it.
type legacy struct {
	*pair
	past *machinecontroller.Past
	// foreign is the name of the Machine whose server has another Machine's UID.
	foreign string
	// user is the name of the user as whom drover runs, and groups are this user's groups.
	user   string
	groups []string
}

// literalSpec is a provider spec of machine-controller that contains its credentials. secretSpec is a provider spec that takes its
// credentials from a Secret.
func literalSpec(cloud *sim.Cloud, pool string) json.RawMessage {
	return legacySpec(cloud, pool, func(_, value string) any { return value })
}

func secretSpec(cloud *sim.Cloud, pool string) json.RawMessage {
	return legacySpec(cloud, pool, func(key, _ string) any {
		return map[string]any{"secretKeyRef": map[string]string{"namespace": metav1.NamespaceSystem, "name": "cloud-credentials", "key": key}}
	})
}

func legacySpec(cloud *sim.Cloud, pool string, credential func(key, value string) any) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{
		"cloudProvider": "openstack", "operatingSystem": "ubuntu", "operatingSystemSpec": map[string]any{"distUpgradeOnBoot": false},
		"cloudProviderSpec": map[string]any{
			"identityEndpoint": cloud.AuthURL(), "username": credential("username", sim.MetaKubeUser), "password": credential("password", sim.MetaKubePassword),
			"domainName": sim.MetaKubeDomain, "tenantName": sim.MetaKubeProject, "region": sim.MetaKubeRegion, "image": sim.MetaKubeImage,
			"flavor": sim.MetaKubeFlavor, "network": sim.MetaKubeNetwork, "floatingIpPool": pool, "tags": map[string]string{"system-cluster": "mmxfcmgjkx"},
		},
	})
	// machine-controller's webhook has stored the document.
	raw, _ = machinecontroller.Defaulted(raw)
	return raw
}

// newLegacy makes 100 Machines as machine-controller leaves them, under its own CRDs.
func newLegacy(t *testing.T) *legacy {
	t.Helper()
	cloud := sim.New(sim.Config{Seed: sim.SeedMetaKube})
	must(t, cloud.Start(t.Context()))
	t.Cleanup(cloud.Close)
	p := newPairAt(t, cloud)
	l := &legacy{pair: p, user: "drover-test", groups: []string{"system:masters"}}
	l.kubectl("annotate", "crd", "clusters.cluster.k8s.io", "machineclasses.cluster.k8s.io", "machinedeployments.cluster.k8s.io",
		"machines.cluster.k8s.io", "machinesets.cluster.k8s.io", "drover-project.github.io/allow-deletion=true")
	l.kubectl("delete", "-k", "../../deploy/crds")
	l.openKinds()
	must(t, p.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "cloud-credentials"},
		StringData: map[string]string{"username": sim.MetaKubeUser, "password": sim.MetaKubePassword},
	}))
	var err error
	l.past, err = machinecontroller.NewPast(t.Context(), p.client, metav1.NamespaceSystem, literalSpec(cloud, sim.MetaKubePool))
	must(t, err)
	l.group("plain", literalSpec(cloud, ""), some{20, joined}, some{10, external}, some{3, nodeless}, some{2, bare}, some{2, nothing}, some{5, going})
	l.group("floating", secretSpec(cloud, sim.MetaKubePool), some{36, addressed}, some{2, unnoted}, some{2, goingIP})
	l.group("secret", secretSpec(cloud, ""), some{7, joined})
	l.groupOf("old", "1.33.4", literalSpec(cloud, ""), some{1, joined})
	must(t, l.past.Manage(t.Context(), l.group("managed", literalSpec(cloud, ""), some{2, joined}), "#cloud-config\nhostname: <MACHINE_NAME>\n"))
	l.rolling()
	return l
}

// kubectl runs kubectl as an administrator.
func (l *legacy) kubectl(args ...string) {
	l.Helper()
	if out, err := l.kube.Kubectl(l.Context(), args...); err != nil {
		l.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// openKinds installs machine-controller's CRDs.
func (l *legacy) openKinds() {
	l.Helper()
	l.kubectl("apply", "--server-side", "--force-conflicts", "-f", "../../deploy/testdata/open-crds.yaml")
	l.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "../../deploy/testdata/open-crds.yaml")
}

// group creates a deployment with one set.
func (l *legacy) group(name string, spec json.RawMessage, all ...some) *machinecontroller.MachineDeployment {
	l.Helper()
	return l.groupOf(name, "1.37.1", spec, all...)
}

// groupOf creates a deployment with one set, whose kubelets have the given version.
func (l *legacy) groupOf(name, kubelet string, spec json.RawMessage, all ...some) *machinecontroller.MachineDeployment {
	l.Helper()
	living := 0
	for _, s := range all {
		if !s.stage.Deleted {
			living += s.n
		}
	}
	template := machinecontroller.Template(name, kubelet, spec)
	d, err := l.past.Deployment(l.Context(), name, living, false, template)
	must(l.T, err)
	set, err := l.past.Set(l.Context(), d, machinecontroller.SetOptions{Suffix: "584598b977", Revision: 1, Replicas: living, Most: living + 1, Template: template})
	must(l.T, err)
	l.machines(set, all...)
	return d
}

// rolling creates a deployment whose rollout was paused midway.
func (l *legacy) rolling() {
	l.Helper()
	was := machinecontroller.Template("rolling", "1.36.0", literalSpec(l.cloud, ""))
	is := machinecontroller.Template("rolling", "1.37.1", literalSpec(l.cloud, ""))
	d, err := l.past.Deployment(l.Context(), "rolling", 8, true, is)
	must(l.T, err)
	for n, template := range []machinecontroller.MachineTemplate{was, is} {
		set, err := l.past.Set(l.Context(), d, machinecontroller.SetOptions{Suffix: fmt.Sprintf("5845%d", n), Revision: n + 1, Replicas: 4, Most: 9, Template: template})
		must(l.T, err)
		l.machines(set, some{4, joined})
	}
}

// machines creates the Machines of a set, eight at a time.
func (l *legacy) machines(set *machinecontroller.MachineSet, all ...some) {
	l.Helper()
	var working sync.WaitGroup
	var mu sync.Mutex
	var failed error
	turn := make(chan struct{}, 8)
	n := 0
	for _, s := range all {
		for range s.n {
			n++
			name := fmt.Sprintf("%s-%02d", set.Name, n)
			working.Go(func() {
				turn <- struct{}{}
				defer func() { <-turn }()
				if _, err := l.past.Machine(l.Context(), set, name, s.stage); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			})
		}
	}
	working.Wait()
	must(l.T, failed)
}

// program returns drover as a process without a configured cloud. out and log receive its output.
func (l *legacy) program(args ...string) (cmd *exec.Cmd, out, log *strings.Builder) {
	l.Helper()
	dir := l.TempDir()
	config, err := l.kube.ConfigForUser(l.user, l.groups...)
	must(l.T, err)
	file := filepath.Join(dir, "kubeconfig")
	must(l.T, kube.WriteKubeconfig(file, config))
	cmd = exec.Command(os.Args[0], append(args, "--kubeconfig="+file, "--allowed-endpoints="+l.cloud.AuthURL())...)
	cmd.Env = []string{asDrover + "=1", "HOME=" + dir}
	out, log = &strings.Builder{}, &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, log
	return cmd, out, log
}

// starts runs drover as a process. The returned function ends drover, and returns its log.
func (l *legacy) starts() (stop func() string) {
	l.Helper()
	cmd, _, log := l.program("--grpc-address="+socketAddress(l.T), "--metrics-address=0",
		"--health-address=0", "--bootstrap-api-server=https://127.0.0.1:1", "--orphan-age=0s")
	must(l.T, cmd.Start())
	stop = sync.OnceValue(func() string {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		return log.String()
	})
	l.Cleanup(func() {
		if text := stop(); l.Failed() {
			l.Logf("drover:\n%s", text[max(0, len(text)-20000):])
		}
	})
	return stop
}

// foresees runs drover adopt --dry-run, and returns the report and the exit code.
func (l *legacy) foresees(args ...string) (adoption.Report, int) {
	l.Helper()
	cmd, out, log := l.program(append([]string{"adopt", "--dry-run", "-o", "json"}, args...)...)
	err := cmd.Run()
	code := cmd.ProcessState.ExitCode()
	var report adoption.Report
	if jsonErr := json.Unmarshal([]byte(out.String()), &report); jsonErr != nil {
		l.Fatalf("drover adopt ended with %v and wrote %s\n%s", err, out, log)
	}
	return report, code
}

// rival renews machine-controller's lease, as a running machine-controller does, until the returned function is called.
func (l *legacy) rival() (stop func()) {
	l.Helper()
	c, err := kubernetes.NewForConfig(l.kube.Config)
	must(l.T, err)
	ctx, cancel := context.WithCancel(l.Context())
	leads := make(chan struct{})
	var ended sync.WaitGroup
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "machine-controller"}, Client: c.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "machine-controller-7d4f_1"},
	}
	ended.Go(func() {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: leaseLife, RenewDeadline: leaseDeadline, RetryPeriod: leaseRetry, Name: "rival", ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leads) }, OnStoppedLeading: func() {}},
		})
	})
	<-leads
	return func() {
		cancel()
		ended.Wait()
	}
}

// inventory is the content of a cluster and its cloud.
type inventory struct {
	machines map[types.UID]v1alpha1.Machine
	sets     []string
	servers  map[string]sim.Server
	ports    []string
	ips      []string
	nodes    map[string]corev1.Node
}

func (l *legacy) look() inventory {
	l.Helper()
	var machines v1alpha1.MachineList
	var sets v1alpha1.MachineSetList
	var nodes corev1.NodeList
	must(l.T, errors.Join(l.client.List(l.Context(), &machines), l.client.List(l.Context(), &sets), l.client.List(l.Context(), &nodes)))
	i := inventory{machines: map[types.UID]v1alpha1.Machine{}, servers: map[string]sim.Server{}, nodes: map[string]corev1.Node{}}
	for _, m := range machines.Items {
		i.machines[m.UID] = m
	}
	for _, s := range sets.Items {
		i.sets = append(i.sets, fmt.Sprintf("%s %d", s.Name, *s.Spec.Replicas))
	}
	slices.Sort(i.sets)
	for _, n := range nodes.Items {
		i.nodes[n.Name] = n
	}
	for _, s := range l.cloud.Servers() {
		i.servers[s.ID] = s
	}
	left := l.cloud.Leftovers()
	i.ports, i.ips = left.Ports, left.FloatingIPs
	return i
}

// settles waits until the result of the given function has not changed for three seconds.
func (l *legacy) settles(what func() string) {
	l.Helper()
	last, since := what(), time.Now()
	l.until("everything has settled", func() bool {
		if now := what(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
}

// eventsOf returns the notes of the Events with the reason.
func (l *legacy) eventsOf(reason string) (notes []string) {
	l.Helper()
	var all corev1.EventList
	must(l.T, l.client.List(l.Context(), &all, client.InNamespace(metav1.NamespaceSystem)))
	for _, e := range all.Items {
		if e.Reason == reason {
			notes = append(notes, e.InvolvedObject.Name+": "+e.Message)
		}
	}
	return notes
}

// ours installs drover's CRDs, roles and policies.
func (l *legacy) ours() {
	l.Helper()
	must(l.T, deploy.Apply(l.Context(), l.client))
	l.kubectl("apply", "--server-side", "-f", "../../deploy/operating-system-manager/references.yaml")
}
