package autoscaler

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// checker checks the invariants of a scenario, above all that drover removes no node that the client did not name.
type checker struct {
	// excused is true while Machines may be deleted although the client has not named them, for example because a user deletes them.
	excused bool
	// allowed is the number of nodes that may be deleted because a user set a smaller size.
	allowed int
	// peak is the largest sum of the sizes of all node groups so far.
	peak int
	// deletedNodes is the number of registered nodes that were deleted.
	deletedNodes int

	mu    sync.Mutex
	lines []string
}

// deleted is called for every Machine that is being deleted. A registered node may be deleted only when the client has named it
// (CA-C65, CA-C85, CA-C88), or when it has an old template.
func (j *checker) deleted(w *world, m *v1alpha1.Machine, s *machine, busy int) {
	if s.counted {
		return
	}
	s.counted = true
	if !s.node {
		return
	}
	j.deletedNodes++
	switch {
	case j.excused, m.Spec.Versions.Kubelet != s.pool.version,
		w.wire.names(m.Name, *m.Spec.ProviderID, "openstack:///"+string(m.UID)),
		// Until a node has started, the client may name it by the ID of its placeholder, because drover may hide the node until
		// then.
		!s.done.started && w.wire.names(s.pool.id()+"/machine/"+m.Name):
	case j.allowed > 0:
		j.allowed--
	default:
		w.Errorf("%s: node %s with %d pods is deleted although the client has not named it", w.elapsed(), m.Name, busy)
	}
}

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// elapsed returns the virtual time since the start. A synctest bubble begins with the year 2000.
func (w *world) elapsed() string { return time.Since(began).Truncate(time.Second).String() }

// log returns a logger that records the client's lines, to print them when the test fails.
func (w *world) log() logr.Logger {
	return funcr.New(func(_, args string) {
		w.checker.mu.Lock()
		defer w.checker.mu.Unlock()
		w.checker.lines = append(w.checker.lines, w.elapsed()+" "+args)
		if strings.Contains(args, "cluster-autoscaler would crash") {
			w.Errorf("%s: %s", w.elapsed(), args)
		}
	}, funcr.Options{})
}

// replicas returns the size of a pool.
func (w *world) replicas(p *pool) int {
	return int(*w.deployment(p).Spec.Replicas)
}

func (w *world) total() (n int) {
	list := &v1alpha1.MachineDeploymentList{}
	w.must(w.seen.List(w.ctx, list, shared))
	for i := range list.Items {
		n += int(*list.Items[i].Spec.Replicas)
	}
	return n
}

// counts returns how many Machines, nodes and running pods a pool has.
func (w *world) counts(p *pool) (machines, nodes, running int) {
	ms, ns, ps := &v1alpha1.MachineList{}, &corev1.NodeList{}, &corev1.PodList{}
	in := client.MatchingLabels{labelPool: p.name}
	for _, list := range []client.ObjectList{ms, ns, ps} {
		w.must(w.seen.List(w.ctx, list, in, shared))
	}
	for i := range ps.Items {
		if ps.Items[i].Status.Phase == corev1.PodRunning && ps.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	return len(ms.Items), len(ns.Items), running
}

// settled reports whether a pool has the given size, exactly as many Machines and nodes, and all of its pods run.
// Flexible pods need not run.
func (w *world) settled(p *pool, size int) bool {
	machines, nodes, running := w.counts(p)
	return w.replicas(p) == size && machines == size && nodes == size && (running == p.pods || p.flexible)
}

// describe returns the state of all pools, the number of calls and the client's last log lines.
func (w *world) describe() string {
	var b strings.Builder
	for _, p := range w.pools {
		machines, nodes, running := w.counts(p)
		fmt.Fprintf(&b, "%s: size %d, %d Machines, %d nodes, %d servers; %d of %d pods run\n",
			p.name, w.replicas(p), machines, nodes, w.servers(p), running, p.pods)
	}
	fmt.Fprintf(&b, "calls: %v\n", w.wire.counts())
	w.checker.mu.Lock()
	defer w.checker.mu.Unlock()
	b.WriteString(strings.Join(w.checker.lines[max(0, len(w.checker.lines)-25):], "\n"))
	return b.String()
}
