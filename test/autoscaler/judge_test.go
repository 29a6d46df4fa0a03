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

// judge holds what must never happen against what does.
type judge struct {
	// excused: Machines go for another reason than the client's, such as a person.
	excused bool
	// allowed is how many nodes a person's smaller size may cost.
	allowed int
	// peak is the largest sum of sizes that was seen.
	peak int
	// gone are the registered nodes that went.
	gone int

	mu    sync.Mutex
	lines []string
}

// deleted is told of every Machine that is being deleted. A node that has registered goes only when the client has named
// it (CA-C65, C85, C88), or when it is of an old template.
func (j *judge) deleted(w *world, m *v1alpha1.Machine, s *machine, busy int) {
	if s.judged {
		return
	}
	s.judged = true
	if !s.node {
		return
	}
	j.gone++
	switch {
	case j.excused, m.Spec.Versions.Kubelet != s.pool.version,
		w.wire.names(m.Name, *m.Spec.ProviderID, "openstack:///"+string(m.UID)),
		// A node that has not started may be named as one that never came.
		!s.done.started && w.wire.names(s.pool.id()+"/machine/"+m.Name):
	case j.allowed > 0:
		j.allowed--
	default:
		w.Errorf("%s: the node %s with %d pods goes, and the client has not named it", w.elapsed(), m.Name, busy)
	}
}

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// elapsed is how long the world has been going on: a bubble begins with the year 2000.
func (w *world) elapsed() string { return time.Since(began).Truncate(time.Second).String() }

// log keeps the client's lines, for when something fails.
func (w *world) log() logr.Logger {
	return funcr.New(func(_, args string) {
		w.judge.mu.Lock()
		defer w.judge.mu.Unlock()
		w.judge.lines = append(w.judge.lines, w.elapsed()+" "+args)
		if strings.Contains(args, "the original would crash") {
			w.Errorf("%s: %s", w.elapsed(), args)
		}
	}, funcr.Options{})
}

// replicas is a pool's size.
func (w *world) replicas(p *pool) int {
	return int(*w.deployment(p).Spec.Replicas)
}

func (w *world) total() (n int) {
	list := &v1alpha1.MachineDeploymentList{}
	w.must(w.seen.List(w.ctx, list))
	for i := range list.Items {
		n += int(*list.Items[i].Spec.Replicas)
	}
	return n
}

// standing are the living Machines and ready nodes of a pool, and its pods that run.
func (w *world) standing(p *pool) (machines, nodes, running int) {
	ms, ns, ps := &v1alpha1.MachineList{}, &corev1.NodeList{}, &corev1.PodList{}
	in := client.MatchingLabels{labelPool: p.name}
	w.must(w.seen.List(w.ctx, ms, in))
	w.must(w.seen.List(w.ctx, ns, in))
	w.must(w.seen.List(w.ctx, ps, in))
	for i := range ps.Items {
		if ps.Items[i].Status.Phase == corev1.PodRunning && ps.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	return len(ms.Items), len(ns.Items), running
}

// settled tells whether a pool has exactly that size, as many Machines and nodes, and all its pods run.
func (w *world) settled(p *pool, size int) bool {
	machines, nodes, running := w.standing(p)
	return w.replicas(p) == size && machines == size && nodes == size && (running == p.pods || p.flexible)
}

// describe says how things stand.
func (w *world) describe() string {
	var b strings.Builder
	for _, p := range w.pools {
		machines, nodes, running := w.standing(p)
		fmt.Fprintf(&b, "%s: size %d, %d Machines, %d nodes, %d servers; %d of %d pods run\n",
			p.name, w.replicas(p), machines, nodes, w.servers(p), running, p.pods)
	}
	fmt.Fprintf(&b, "calls: %v\n", w.wire.counts())
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	b.WriteString(strings.Join(w.judge.lines[max(0, len(w.judge.lines)-25):], "\n"))
	return b.String()
}
