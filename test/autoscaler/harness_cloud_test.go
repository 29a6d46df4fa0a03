package autoscaler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	backoffs "github.com/drover-project/drover/machines/backoff"
	"github.com/drover-project/drover/machines/fault"
)

// machine holds what the simulated cloud knows about one Machine.
type machine struct {
	pool *pool
	nth  int
	// server is the time at which the Machine's server was created, or zero if there is no server. asked is the time of
	// the last attempt to create a server. joined is the time at which the node registered.
	server, asked, joined time.Time
	// node is true when the node exists. done is the progress of the node's start.
	node    bool
	done    progress
	counted bool
}

// retry is how long the Machine controller waits after the cloud has refused to create a server.
const retry = 30 * time.Second

// stepMachines is the model of the cloud and of the Machine controller: it adds finalizers, servers and nodes to Machines, and
// removes them again.
func (w *world) stepMachines(machines []v1alpha1.Machine, nodes []corev1.Node, pods []corev1.Pod) {
	busy := map[string]int{}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			busy[pods[i].Spec.NodeName]++
		}
	}
	known := map[string]*corev1.Node{}
	for i := range nodes {
		known[nodes[i].Name] = &nodes[i]
	}
	for i := range machines {
		m := &machines[i]
		s := w.machines[string(m.UID)]
		if s == nil {
			s = w.newMachine(m)
		}
		if m.DeletionTimestamp != nil {
			w.checker.deleted(w, m, s, busy[m.Name])
			w.takeDown(m, s, known[m.Name], busy[m.Name])
			continue
		}
		w.bringUp(m, s)
	}
}

func (w *world) newMachine(m *v1alpha1.Machine) *machine {
	s := &machine{}
	for _, p := range w.pools {
		if p.name == m.Labels[labelPool] {
			p.made++
			s.pool, s.nth = p, p.made
		}
	}
	w.machines[string(m.UID)] = s
	return s
}

// servers returns the number of servers of a pool.
func (w *world) servers(p *pool) (n int) {
	for _, s := range w.machines {
		if s.pool == p && !s.server.IsZero() {
			n++
		}
	}
	return n
}

// bringUp takes the next step of a Machine's creation: it adds the finalizer, creates the server, or registers the node.
func (w *world) bringUp(m *v1alpha1.Machine, s *machine) {
	now := time.Now()
	switch {
	case len(m.Finalizers) == 0:
		w.change(m, func() { m.Finalizers = []string{v1alpha1.FinalizerServer} })
	case s.server.IsZero() && (m.Annotations[v1alpha1.AnnotationInitializers] != "" || v1alpha1.Paused(m.Annotations)):
	case s.server.IsZero() && now.Sub(s.asked) < retry:
	case s.server.IsZero() && s.pool.quota >= 0 && w.servers(s.pool) >= s.pool.quota:
		s.asked = now
		w.change(m, func() {
			m.Status.ErrorReason = ptr.To(string(fault.CodeQuotaExceeded))
			m.Status.ErrorMessage = ptr.To("creating server: Quota exceeded for instances")
			m.Status.LastOperation = &v1alpha1.LastOperation{LastUpdated: ptr.To(metav1.Now())}
		})
	case s.server.IsZero():
		s.server = now
		w.change(m, func() {
			m.Spec.ProviderID = ptr.To("openstack:///" + string(m.UID))
			m.Status.ErrorReason, m.Status.ErrorMessage = nil, nil
			m.Status.Phase = ptr.To(v1alpha1.PhaseProvisioning)
		})
	case !s.node && !s.pool.lost(s.nth) && now.Sub(s.server) >= s.pool.boot:
		w.join(m, s)
		w.joinEnded(m, s.pool, true)
	case !s.node && s.pool.join > 0 && now.Sub(s.server) >= s.pool.join:
		w.joinEnded(m, s.pool, false)
		w.mustExist(w.admin.Delete(w.ctx, m))
	case s.node && (!s.done.initialized || !s.done.started || s.done.id == ""):
		w.settle(m, s)
	}
}

// joinEnded records in the status of the pool's deployment whether a server has become a node, as the Machine controller does.
func (w *world) joinEnded(m *v1alpha1.Machine, p *pool, ok bool) {
	d, groups := w.deployment(p), backoffs.NewGroups(func(types.NamespacedName) {})
	_, nodes, _ := w.counts(p)
	if !groups.Joined(d, m.UID, ok, nodes) {
		return
	}
	before := d.DeepCopy()
	joins, _ := groups.Status(d)
	d.Status.JoinOutcomes, d.Status.RecentJoins = joins.JoinOutcomes, joins.RecentJoins
	w.must(w.admin.Status().Patch(w.ctx, d, client.MergeFrom(before)))
}

// takeDown drains a Machine's node for the drain time of its pool, and then deletes the server, the node and the Machine.
func (w *world) takeDown(m *v1alpha1.Machine, s *machine, n *corev1.Node, busy int) {
	if n != nil && !n.Spec.Unschedulable {
		before := n.DeepCopy()
		n = n.DeepCopy()
		n.Spec.Unschedulable = true
		w.mustExist(w.admin.Patch(w.ctx, n, client.MergeFrom(before)))
	}
	if n != nil && busy > 0 && time.Since(m.DeletionTimestamp.Time) < s.pool.drain {
		return
	}
	s.server = time.Time{}
	if n != nil {
		w.mustExist(w.admin.Delete(w.ctx, n))
	}
	w.change(m, func() { m.Finalizers = nil })
}

// change calls the function how, which changes the Machine m, and writes the spec and the status of m with one patch: Machines
// have no status subresource.
func (w *world) change(m *v1alpha1.Machine, how func()) {
	before := m.DeepCopy()
	how()
	w.mustExist(w.admin.Patch(w.ctx, m, client.MergeFrom(before)))
}

// mustExist fails the test on any error except NotFound, because the object may have been deleted meanwhile.
func (w *world) mustExist(err error) {
	w.Helper()
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
}
