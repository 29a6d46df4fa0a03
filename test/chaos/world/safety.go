package world

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/chaos/schedule"
)

const (
	// CollectorConfigMap is the ConfigMap with the report of the orphan collector, which an operator annotates to confirm the deletion
	// of orphans. It is in Namespace.
	CollectorConfigMap = "drover-orphans"
	// Deadlock is a condition that makes a Node unhealthy.
	Deadlock corev1.NodeConditionType = "KernelDeadlock"
	// silentAfter is how long after the kubelet's last report the Ready condition of a Node becomes Unknown.
	silentAfter = 40 * time.Second
)

// definition is the GroupVersionKind of a CustomResourceDefinition.
var definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// safety records the Nodes that the test made unhealthy, and the Machines that it removed together with their finalizers.
type safety struct {
	mu sync.Mutex
	// unhealthy holds the servers whose Nodes are unhealthy. stopped holds those of these servers whose kubelets were stopped.
	unhealthy, stopped map[string]bool
	// orphaned holds the Machines that were removed while their servers stayed.
	orphaned map[types.UID]bool
	// replaced holds the time at which each unhealthy Machine was deleted.
	replaced map[types.UID]time.Time
}

func newSafety() safety {
	return safety{unhealthy: map[string]bool{}, stopped: map[string]bool{}, orphaned: map[types.UID]bool{}, replaced: map[types.UID]time.Time{}}
}

// createDefinitions creates drover's CustomResourceDefinitions, which the collector of orphans reads.
func (w *World) createDefinitions() error {
	for _, name := range []string{"clusters", "machineclasses", "machinedeployments", "machines", "machinesets"} {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(definition)
		crd.SetName(name + ".cluster.k8s.io")
		if err := w.Admin.Create(w.Context, crd); err != nil {
			return fmt.Errorf("creating the definition of %s: %w", name, err)
		}
	}
	return nil
}

// SetDeadlock sets a kernel deadlock condition on the Node of a server. The kubelet keeps running.
func (w *World) SetDeadlock(server string) error {
	w.safety.mu.Lock()
	w.safety.unhealthy[server] = true
	w.safety.mu.Unlock()
	return w.setCondition(w.Context, server, corev1.NodeCondition{Type: Deadlock, Status: corev1.ConditionTrue, Reason: "TaskHung"})
}

// StopKubelet stops the kubelet of a server.
func (w *World) StopKubelet(server string) {
	w.safety.mu.Lock()
	w.safety.unhealthy[server], w.safety.stopped[server] = true, true
	w.safety.mu.Unlock()
	w.gone(server)
}

// isStopped reports whether the kubelet of a server was stopped.
func (s *safety) isStopped(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped[server]
}

// isUnhealthy reports whether the Node of a server was made unhealthy.
func (s *safety) isUnhealthy(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unhealthy[server]
}

// Orphan deletes a Machine and removes its finalizers a second later, as an impatient user may. The Machine's server and other resources
// stay. drover begins the deletion within that second. Without the pause it would depend on chance whether drover begins the deletion.
func (w *World) Orphan(m *v1alpha1.Machine) error {
	w.safety.mu.Lock()
	w.safety.orphaned[m.UID] = true
	w.safety.mu.Unlock()
	if err := w.Admin.Delete(w.Context, m); err != nil {
		return fmt.Errorf("deleting Machine %s: %w", m.Name, err)
	}
	schedule.Sleep(w.Context, time.Second)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := w.Admin.Patch(w.Context, m, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizers of Machine %s: %w", m.Name, err)
	}
	return nil
}

// isOrphaned reports whether the Machine with that UID was removed by Orphan.
func (s *safety) isOrphaned(machine types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphaned[machine]
}

// Confirm sets the annotation by which an operator confirms that a Machine is gone.
func (w *World) Confirm(machine types.UID) error {
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: CollectorConfigMap}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCollect, machine)
	if err := w.Admin.Patch(w.Context, found, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotating the ConfigMap of the orphan collector: %w", err)
	}
	return nil
}

// markUnknown does what the node lifecycle controller does: silentAfter after the kubelet was stopped, it sets the Node's Ready
// condition to Unknown.
func (w *World) markUnknown(server string) {
	if !schedule.Sleep(w.Context, silentAfter) {
		return
	}
	if err := w.Scheduler.Await(w.Context, "node lifecycle", func() string { return w.nodeName(server) }); err != nil {
		return
	}
	unknown := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}
	w.note(w.setCondition(w.Context, server, unknown))
}

// nodeName returns the name of a server's Node, or an empty name if the server has no Node.
func (w *World) nodeName(server string) string {
	if n, err := w.nodeOf(w.Context, server); err == nil && n != nil {
		return n.Name
	}
	return ""
}

// nodeOf returns the Node of a server, or nil if the server has no Node.
func (w *World) nodeOf(ctx context.Context, server string) (*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := w.Admin.List(ctx, &nodes); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		if serverOf(nodes.Items[i].Spec.ProviderID) == server && nodes.Items[i].Name != unrelatedNode {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil
}

// setCondition sets a condition on a server's Node. It does nothing if the server has no Node.
func (w *World) setCondition(ctx context.Context, server string, c corev1.NodeCondition) error {
	node, err := w.nodeOf(ctx, server)
	if node == nil || err != nil {
		return err
	}
	c.LastTransitionTime = metav1.Now()
	at := -1
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == c.Type {
			at = i
		}
	}
	if at < 0 {
		node.Status.Conditions = append(node.Status.Conditions, c)
	} else {
		node.Status.Conditions[at] = c
	}
	return client.IgnoreNotFound(w.Admin.Status().Update(ctx, node))
}

// replacementTime is the longest time for which a replacement is considered in progress: the join timeout and two
// minutes.
const replacementTime = 12 * time.Minute

// serverOf returns the server ID in a provider ID.
func serverOf(providerID string) string { return path.Base(providerID) }

// healthy reports whether a Machine runs, its server exists and its Node was not made unhealthy.
func (w *World) healthy(m *v1alpha1.Machine) bool {
	id := serverOf(ptr.Deref(m.Spec.ProviderID, ""))
	_, exists := w.Cloud.Server(id)
	return m.DeletionTimestamp == nil && ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning && exists && !w.safety.isUnhealthy(id)
}

// mayBeReplaced returns an error for the deletion of an unhealthy Machine if its set's status does not list it as a
// replacement, or while another Machine of the set is being replaced.
func (w *World) mayBeReplaced(m *v1alpha1.Machine, set *v1alpha1.MachineSet, s sizes) error {
	if m.DeletionTimestamp != nil || !w.safety.isUnhealthy(serverOf(ptr.Deref(m.Spec.ProviderID, ""))) {
		return nil
	}
	if !slices.ContainsFunc(set.Status.HealthReplacements, func(r v1alpha1.HealthReplacement) bool { return r.UID == m.UID }) {
		return fmt.Errorf("unhealthy Machine %s of set %s is missing in the set's list of replacements %v", m.Name, set.Name, set.Status.HealthReplacements)
	}
	up := s.living(func(other *v1alpha1.Machine, its *v1alpha1.MachineSet, _ *v1alpha1.MachineDeployment) bool {
		return its.UID == set.UID && ptr.Deref(other.Status.Phase, "") == v1alpha1.PhaseRunning
	})
	coming := len(up) < int(ptr.Deref(set.Spec.Replicas, 0))
	for uid, began := range w.safety.replacements() {
		exists := slices.ContainsFunc(s.machines, func(other v1alpha1.Machine) bool { return other.UID == uid })
		if uid != m.UID && (exists || coming) && time.Since(began) < replacementTime {
			return fmt.Errorf("unhealthy Machine %s of set %s is deleted while Machine %s is being replaced since %v (it exists: %v; running Machines: %v)",
				m.Name, set.Name, uid, time.Since(began), exists, up)
		}
	}
	return nil
}

// replacements returns a copy of the times at which unhealthy Machines were deleted.
func (s *safety) replacements() map[types.UID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[types.UID]time.Time, len(s.replaced))
	for uid, at := range s.replaced {
		all[uid] = at
	}
	return all
}

// noteReplaced records that a Machine has just been deleted, if it is unhealthy.
func (w *World) noteReplaced(name string) error {
	var m v1alpha1.Machine
	if err := w.Admin.Get(w.Context, types.NamespacedName{Namespace: Namespace, Name: name}, &m); err != nil {
		return client.IgnoreNotFound(err)
	}
	if m.DeletionTimestamp == nil || !w.safety.isUnhealthy(serverOf(ptr.Deref(m.Spec.ProviderID, ""))) {
		return nil
	}
	w.safety.mu.Lock()
	defer w.safety.mu.Unlock()
	if _, known := w.safety.replaced[m.UID]; !known {
		w.safety.replaced[m.UID] = time.Now()
	}
	return nil
}

// isOfLiving returns an error when a server belongs to a Machine that is not being deleted.
func (w *World) isOfLiving(server string) error {
	machines, err := w.Machines()
	if err != nil {
		return err
	}
	s, _ := w.Cloud.Server(server)
	for i := range machines {
		if m := &machines[i]; m.DeletionTimestamp == nil && s.Status == "ACTIVE" && serverOf(ptr.Deref(m.Spec.ProviderID, "")) == server {
			return fmt.Errorf("server %s belongs to Machine %s", server, m.Name)
		}
	}
	return nil
}
