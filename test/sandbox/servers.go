package sandbox

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kubelet"
	"github.com/drover-project/drover/test/openstack"
)

// consoleLimit is how many lines of a server's console are stored, and how many lines of its journal.
const consoleLimit = 200

// machines runs a kubelet on each server of the cloud, from the server's boot to its end.
type machines struct {
	ctx   context.Context
	cloud *openstack.Cloud
	boots func(openstack.Server) bool
	// heartbeat is the interval at which kubelets report.
	heartbeat time.Duration
	work      sync.WaitGroup

	mu      sync.Mutex
	running map[string]context.CancelFunc
	// restarts is how often all kubelets were restarted.
	restarts int
	// cut holds the IDs of the servers that cannot reach the API server.
	cut map[string]bool
	// failing holds the IDs of the servers whose kubelets report that they cannot run pods.
	failing map[string]bool
	// console and journal hold the output of each server, by its ID.
	console, journal map[string][]string
}

func runMachines(ctx context.Context, cloud *openstack.Cloud, boots func(openstack.Server) bool, heartbeat time.Duration) *machines {
	m := &machines{
		ctx: ctx, cloud: cloud, boots: boots, heartbeat: heartbeat, running: map[string]context.CancelFunc{},
		cut: map[string]bool{}, failing: map[string]bool{}, console: map[string][]string{}, journal: map[string][]string{},
	}
	cloud.OnBoot(m.boot)
	cloud.OnGone(m.gone)
	return m
}

func (m *machines) wait() { m.work.Wait() }

func (m *machines) boot(s openstack.Server) {
	if m.ctx.Err() != nil || !m.boots(s) {
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	m.mu.Lock()
	m.running[s.ID] = cancel
	m.mu.Unlock()
	m.work.Go(func() {
		// The error is ignored, because the kubelet also writes its failures to the server's journal.
		_ = kubelet.Run(ctx, kubelet.Options{
			MetadataURL: m.cloud.MetadataURL(), InstanceID: s.ID, Capacity: capacityOf(s), ReadyAfter: readyAfter,
			Annotations: map[string]string{kube.FakeNode: "fake"}, Heartbeat: m.heartbeat,
			Runs:  func() bool { return m.runs(s.ID) && !m.has(m.cut, s.ID) },
			Fails: func() bool { return m.has(m.failing, s.ID) }, Restarts: m.restarted,
			Console: func(line string) { m.cloud.SetConsole(s.ID, m.print(m.console, s.ID, line)) },
			Journal: func(line string) { m.print(m.journal, s.ID, line) },
		})
	})
}

// runs reports whether a server runs.
func (m *machines) runs(id string) bool {
	s, found := m.cloud.Server(id)
	return found && s.Status != "SHUTOFF"
}

func (m *machines) gone(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stop, ok := m.running[id]; ok {
		stop()
		delete(m.running, id)
	}
}

// set puts servers into one of the sets cut and failing, or takes them out of it.
func (m *machines) set(which map[string]bool, in bool, ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		which[id] = in
	}
}

func (m *machines) has(which map[string]bool, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return which[id]
}

// restart restarts all kubelets.
func (m *machines) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restarts++
}

// restarted returns how often all kubelets were restarted.
func (m *machines) restarted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.restarts
}

// print adds a line to a server's console or journal, and returns the whole console or journal.
func (m *machines) print(to map[string][]string, id, line string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := append(to[id], time.Now().UTC().Format(time.TimeOnly)+" "+line)
	to[id] = lines[max(0, len(lines)-consoleLimit):]
	return strings.Join(to[id], "\n") + "\n"
}

// Journals returns the output of the systemd units on each server, by server ID. A server's console shows only a part
// of this output.
func (s *Sandbox) Journals() map[string]string {
	s.machines.mu.Lock()
	defer s.machines.mu.Unlock()
	out := map[string]string{}
	for id, lines := range s.machines.journal {
		out[id] = strings.Join(lines, "\n")
	}
	return out
}

// kernelShare is the percentage of its flavor's memory that a server's kernel and firmware reserve.
const kernelShare = 2

// capacityOf returns the capacity that the kubelet on a server reports.
func capacityOf(s openstack.Server) corev1.ResourceList {
	const mebibyte, gibibyte = 1 << 20, 1 << 30
	memory := int64(s.RAM) * mebibyte * (100 - kernelShare) / 100
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(s.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(s.Disk)*gibibyte, resource.BinarySI),
	}
}

// serversOf returns a function that lists the servers as the cloud-controller-manager sees them.
func serversOf(cloud *openstack.Cloud, region string) func() []kubelet.Server {
	return func() []kubelet.Server {
		var out []kubelet.Server
		for _, s := range cloud.Servers() {
			entry := kubelet.Server{ID: s.ID, Name: s.Name, Flavor: s.Flavor, Zone: s.Zone, Region: region, HostID: s.HostID, ShutDown: s.Status == "SHUTOFF"}
			for _, ip := range s.FixedIPs {
				entry.Addresses = append(entry.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
			}
			for _, ip := range s.Floating {
				entry.Addresses = append(entry.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip})
			}
			entry.Addresses = append(entry.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: s.Name})
			out = append(out, entry)
		}
		return out
	}
}
