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
	// ClusterIDConfigMap is the ConfigMap of the cluster ID, on which an operator confirms that orphans may be deleted. It is in
	// Namespace, as is what drover writes about itself.
	ClusterIDConfigMap = "drover-cluster-id"
	// Deadlock is a condition that makes a Node unhealthy.
	Deadlock corev1.NodeConditionType = "KernelDeadlock"
	// silentAfter is how long after its kubelet's last report a Node is not known to be Ready any more.
	silentAfter = 40 * time.Second
)

// definition is the kind of a CustomResourceDefinition.
var definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// safety is what the world remembers of Nodes that were made unhealthy, and of Machines that were taken away.
type safety struct {
	mu sync.Mutex
	// sick are the servers whose Nodes are unhealthy for good; silent those of them whose kubelets have ended.
	sick, silent map[string]bool
	// orphaned are the Machines that were taken away, whose servers stay.
	orphaned map[types.UID]bool
	// replaced are the sick Machines that were deleted, with the time at which each was.
	replaced map[types.UID]time.Time
}

func newSafety() safety {
	return safety{sick: map[string]bool{}, silent: map[string]bool{}, orphaned: map[types.UID]bool{}, replaced: map[types.UID]time.Time{}}
}

// define makes the definitions of the Machines, which the collector of orphans looks for, and the ConfigMap of the cluster ID.
func (w *World) define() error {
	for _, name := range []string{"machines", "machinesets", "machinedeployments"} {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(definition)
		crd.SetName(name + ".cluster.k8s.io")
		if err := w.Admin.Create(w.Context, crd); err != nil {
			return fmt.Errorf("creating the definition of %s: %w", name, err)
		}
	}
	id := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ClusterIDConfigMap}}
	if err := w.Admin.Create(w.Context, id); err != nil {
		return fmt.Errorf("creating the ConfigMap of the cluster ID: %w", err)
	}
	return nil
}

// Sicken makes the Node of a server report a kernel that hangs, for good. Its kubelet goes on.
func (w *World) Sicken(server string) error {
	w.safety.mu.Lock()
	w.safety.sick[server] = true
	w.safety.mu.Unlock()
	return w.setCondition(w.Context, server, corev1.NodeCondition{Type: Deadlock, Status: corev1.ConditionTrue, Reason: "TaskHung"})
}

// Silence ends the kubelet of a server, for good.
func (w *World) Silence(server string) {
	w.safety.mu.Lock()
	w.safety.sick[server], w.safety.silent[server] = true, true
	w.safety.mu.Unlock()
	w.gone(server)
}

// isSilent reports whether the kubelet of a server was ended.
func (s *safety) isSilent(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent[server]
}

// isSick reports whether the Node of a server was made unhealthy.
func (s *safety) isSick(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sick[server]
}

// Orphan deletes a Machine and takes its finalizers off a second later, as a person does who does not want to wait. What it has
// stays. drover has begun the deletion by then: without the second, chance decides whether it has.
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
		return fmt.Errorf("taking the finalizers off Machine %s: %w", m.Name, err)
	}
	return nil
}

// isOrphaned reports whether the Machine with that UID was taken away.
func (s *safety) isOrphaned(machine types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphaned[machine]
}

// Confirm sets or removes the annotation by which an operator confirms that what has no Machine may be deleted.
func (w *World) Confirm(yes bool) error {
	value := "null"
	if yes {
		value = `"yes"`
	}
	id := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ClusterIDConfigMap}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationCollect, value)
	if err := w.Admin.Patch(w.Context, id, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotating the ConfigMap of the cluster ID: %w", err)
	}
	return nil
}

// loseSight is the cluster's node lifecycle controller: a while after its kubelet has ended, a Node is not known to be Ready.
func (w *World) loseSight(server string) {
	if !schedule.Sleep(w.Context, silentAfter) {
		return
	}
	if err := w.Scheduler.Await(w.Context, "node lifecycle", func() string { return w.nodeName(server) }); err != nil {
		return
	}
	unknown := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}
	w.note(w.setCondition(w.Context, server, unknown))
}

// nodeName returns the name of a server's Node; empty when there is none.
func (w *World) nodeName(server string) string {
	if n, err := w.nodeOf(w.Context, server); err == nil && n != nil {
		return n.Name
	}
	return ""
}

// nodeOf returns the Node of a server; nil when there is none.
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

// setCondition sets a condition of a server's Node, if there is one.
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

// replacementTime is how long a replacement counts at most: the time to join, and two minutes.
const replacementTime = 12 * time.Minute

// serverOf returns the server that a provider ID names.
func serverOf(providerID string) string { return path.Base(providerID) }

// healthy reports whether a Machine runs and nobody has made its Node unhealthy.
func (w *World) healthy(m *v1alpha1.Machine) bool {
	return m.DeletionTimestamp == nil && ptr.Deref(m.Status.Phase, "") == v1alpha1.PhaseRunning &&
		!w.safety.isSick(serverOf(ptr.Deref(m.Spec.ProviderID, "")))
}

// mayBeReplaced returns an error when a sick Machine of a set is about to be deleted that is not in the set's record of replacements,
// or while another one of the set is being replaced.
func (w *World) mayBeReplaced(m *v1alpha1.Machine, set *v1alpha1.MachineSet, s sizes) error {
	if m.DeletionTimestamp != nil || !w.safety.isSick(serverOf(ptr.Deref(m.Spec.ProviderID, ""))) {
		return nil
	}
	if !slices.ContainsFunc(set.Status.HealthReplacements, func(r v1alpha1.HealthReplacement) bool { return r.UID == m.UID }) {
		return fmt.Errorf("unhealthy Machine %s of set %s, whose record of replacements is %v", m.Name, set.Name, set.Status.HealthReplacements)
	}
	up := s.living(func(other *v1alpha1.Machine, its *v1alpha1.MachineSet, _ *v1alpha1.MachineDeployment) bool {
		return its.UID == set.UID && ptr.Deref(other.Status.Phase, "") == v1alpha1.PhaseRunning
	})
	coming := len(up) < int(ptr.Deref(set.Spec.Replicas, 0))
	for uid, began := range w.safety.replacements() {
		exists := slices.ContainsFunc(s.machines, func(other v1alpha1.Machine) bool { return other.UID == uid })
		if uid != m.UID && (exists || coming) && time.Since(began) < replacementTime {
			return fmt.Errorf("unhealthy Machine %s of set %s, while Machine %s is being replaced since %v (it exists: %v; Machines that run: %v)",
				m.Name, set.Name, uid, time.Since(began), exists, up)
		}
	}
	return nil
}

// replacements returns a copy of when each sick Machine was deleted.
func (s *safety) replacements() map[types.UID]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[types.UID]time.Time, len(s.replaced))
	for uid, at := range s.replaced {
		all[uid] = at
	}
	return all
}

// noteReplaced notes when a sick Machine was deleted.
func (w *World) noteReplaced(name string) error {
	var m v1alpha1.Machine
	if err := w.Admin.Get(w.Context, types.NamespacedName{Namespace: Namespace, Name: name}, &m); err != nil {
		return client.IgnoreNotFound(err)
	}
	if m.DeletionTimestamp == nil || !w.safety.isSick(serverOf(ptr.Deref(m.Spec.ProviderID, ""))) {
		return nil
	}
	w.safety.mu.Lock()
	defer w.safety.mu.Unlock()
	if _, known := w.safety.replaced[m.UID]; !known {
		w.safety.replaced[m.UID] = time.Now()
	}
	return nil
}

// isOfLiving returns an error when a server is the one of a Machine that is not being deleted.
func (w *World) isOfLiving(server string) error {
	machines, err := w.Machines()
	if err != nil {
		return err
	}
	s, _ := w.Cloud.Server(server)
	for i := range machines {
		if m := &machines[i]; m.DeletionTimestamp == nil && s.Status == "ACTIVE" && serverOf(ptr.Deref(m.Spec.ProviderID, "")) == server {
			return fmt.Errorf("server %s is that of Machine %s", server, m.Name)
		}
	}
	return nil
}
