package capacity

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/rollout"
)

// learnt lists the resources that are taken from real nodes, whose values are more accurate than the flavor's.
var learnt = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods}

// hashOf returns a short hash of any value that JSON can encode.
func hashOf(of any) (string, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	// writing to a hash never returns an error
	_, _ = h.Write(raw)
	return strconv.FormatUint(h.Sum64(), 36), nil
}

// lesson returns a key for the inputs that determine a node's resources: flavor, image, kubelet and reservations. Nodes with the same
// key have the same resources, whatever their deployments are.
func lesson(t *v1alpha1.MachineTemplateSpec, shape cloud.Shape, s bootstrap.KubeletSettings) (string, error) {
	var image any
	if source, err := t.Spec.Provider(); err == nil && source.Value != nil {
		// The keys of a provider spec match regardless of case. json.Unmarshal finds these fields in the same way.
		var spec struct {
			OperatingSystem   any
			CloudProviderSpec struct{ Image, RootDiskSizeGB any }
		}
		if err := json.Unmarshal(source.Value.Raw, &spec); err == nil {
			image = spec
		}
	}
	return hashOf(struct {
		Flavor, CPU, Memory, Disk, Architecture, Kubelet string
		Image, Class                                     any
		Kube, System, Evict                              map[string]string
		Pods                                             int32
	}{
		shape.Flavor, shape.CPU.String(), shape.Memory.String(), shape.Disk.String(), shape.Architecture, t.Spec.Versions.Kubelet,
		image, t.Spec.ProviderSpec.ValueFrom, s.KubeReserved, s.SystemReserved, s.EvictionHard, s.MaxPods,
	})
}

// learn replaces the computed resources by those that real nodes with the same key report (see the function lesson). It takes
// the lowest values of the nodes of this deployment or set. Without such nodes it takes the values that this or another
// deployment has learned earlier. It does not change resources that annotations or a class set.
func (r *Reconciler) learn(ctx context.Context, s *subject, t resolved) error {
	from, err := r.ownNodes(ctx, s, t.settings)
	if err != nil {
		return err
	}
	if from == nil {
		if from, err = r.remembered(ctx, s, t.lesson); err != nil || from == nil {
			return err
		}
	}
	for _, name := range learnt {
		if slices.Contains(t.given, name) {
			continue
		}
		take(t.Capacity, from.Capacity, name)
		take(t.Allocatable, from.Allocatable, name)
	}
	t.LearnedFor = t.lesson
	return nil
}

func take(into, from corev1.ResourceList, name corev1.ResourceName) {
	if q, ok := from[name]; ok && q.Sign() > 0 {
		into[name] = q.DeepCopy()
	}
}

// remembered returns the resources that were learned earlier under the given key: by the same deployment or set, or else by any deployment.
func (r *Reconciler) remembered(ctx context.Context, s *subject, key string) (*v1alpha1.NodeTemplate, error) {
	if s.known != nil && s.known.LearnedFor == key {
		return s.known, nil
	}
	var all v1alpha1.MachineDeploymentList
	if err := r.client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing deployments: %w", err)
	}
	for i := range all.Items {
		if t := all.Items[i].Status.NodeTemplate; t != nil && t.LearnedFor == key {
			return t, nil
		}
	}
	return nil, nil
}

// ownNodes returns the lowest resources of the Ready nodes with the subject's current template and kubelet settings; nil when there are no
// such nodes.
func (r *Reconciler) ownNodes(ctx context.Context, s *subject, settings bootstrap.KubeletSettings) (*v1alpha1.NodeTemplate, error) {
	sets, err := r.presentSets(ctx, s)
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	var machines v1alpha1.MachineList
	// The listed objects are not changed, so deep copies, which are expensive for a large group, are not needed.
	if err := r.client.List(ctx, &machines, client.InNamespace(s.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var least *v1alpha1.NodeTemplate
	for i := range machines.Items {
		m := &machines.Items[i]
		owner := metav1.GetControllerOfNoCopy(m)
		if owner == nil || !sets[string(owner.UID)] || m.Status.NodeRef == nil || !m.DeletionTimestamp.IsZero() {
			continue
		}
		node := &corev1.Node{}
		if err := r.nodes.Get(ctx, client.ObjectKey{Name: m.Status.NodeRef.Name}, node, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading node %s: %w", m.Status.NodeRef.Name, err)
		}
		if v1alpha1.NodeReady(node).Status == corev1.ConditionTrue && !outdated(node, settings) {
			least = lower(least, node)
		}
	}
	return least, nil
}

// presentSets returns the UIDs of the sets with the current template.
func (r *Reconciler) presentSets(ctx context.Context, s *subject) (map[string]bool, error) {
	if s.kind == v1alpha1.MachineSetKind {
		return map[string]bool{string(s.GetUID()): true}, nil
	}
	var sets v1alpha1.MachineSetList
	if err := r.client.List(ctx, &sets, client.InNamespace(s.GetNamespace())); err != nil {
		return nil, fmt.Errorf("listing sets: %w", err)
	}
	out := map[string]bool{}
	for i := range sets.Items {
		set := &sets.Items[i]
		if owner := metav1.GetControllerOfNoCopy(set); owner != nil && owner.UID == s.GetUID() && rollout.TemplatesEqual(&set.Spec.Template, s.template) {
			out[string(set.UID)] = true
		}
	}
	return out, nil
}

// lower returns, for each resource, the lower of two quantities: the one in than, and the one that the node reports.
func lower(than *v1alpha1.NodeTemplate, n *corev1.Node) *v1alpha1.NodeTemplate {
	if than == nil {
		return &v1alpha1.NodeTemplate{Capacity: n.Status.Capacity.DeepCopy(), Allocatable: n.Status.Allocatable.DeepCopy()}
	}
	for _, name := range learnt {
		least(than.Capacity, n.Status.Capacity, name)
		least(than.Allocatable, n.Status.Allocatable, name)
	}
	return than
}

func least(into, from corev1.ResourceList, name corev1.ResourceName) {
	if a, ok := into[name]; ok {
		if b, there := from[name]; there && b.Cmp(a) < 0 {
			into[name] = b.DeepCopy()
		}
	}
}
