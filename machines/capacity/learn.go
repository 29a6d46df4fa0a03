package capacity

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// learn replaces the computed resources by those that the group's own nodes report, or else by those that other groups of the namespace have
// learned from nodes with the same key (see the function lesson). It takes the lowest plausible values. Values that annotations or a class
// set stay. learn also adds to the template what all nodes have and drover does not compute (see learnMarks). Nothing is kept: without such
// nodes the template is the computed one.
func (r *Reconciler) learn(ctx context.Context, s *subject, t *resolved) error {
	nodes, err := r.ownNodes(ctx, s, t.settings)
	if err != nil {
		return err
	}
	taught := v1alpha1.NodeTemplate{Capacity: corev1.ResourceList{}, Allocatable: corev1.ResourceList{}}
	for _, n := range nodes {
		for _, value := range t.lower(taught, n.Status.Capacity, n.Status.Allocatable) {
			t.refuted = append(t.refuted, "node "+n.Name+" reports "+value)
		}
	}
	if len(taught.Capacity)+len(taught.Allocatable) > 0 {
		t.LearnedFor = t.lesson
	} else if err := r.learnFromNeighbours(ctx, s, t, taught); err != nil {
		return err
	}
	maps.Copy(t.Capacity, taught.Capacity)
	maps.Copy(t.Allocatable, taught.Allocatable)
	nodes = settled(nodes, r.Clock.Now())
	t.learnMarks(nodes)
	t.unlike = t.differences(nodes)
	for _, key := range v1alpha1.WithheldNodeLabels(r.AllowedNodeLabels, t.Labels) {
		delete(t.Labels, key)
	}
	return nil
}

// learnFromNeighbours adds to taught the lowest values that other deployments of the namespace have learned from their own nodes with the
// same key, and to the template what all of these nodes have (see learnMarks). A node of one namespace changes no template of another one.
func (r *Reconciler) learnFromNeighbours(ctx context.Context, s *subject, t *resolved, taught v1alpha1.NodeTemplate) error {
	var all v1alpha1.MachineDeploymentList
	if err := r.client.List(ctx, &all, client.InNamespace(s.GetNamespace())); err != nil {
		return fmt.Errorf("listing deployments: %w", err)
	}
	var others []*corev1.Node
	for i := range all.Items {
		d := &all.Items[i]
		if from := d.Status.NodeTemplate; from != nil && from.LearnedFor == t.lesson && d.UID != s.GetUID() {
			t.lower(taught, from.Capacity, from.Allocatable)
			neighbour := ofDeployment(d)
			nodes, err := r.ownNodes(ctx, neighbour, t.settings)
			if err != nil {
				return err
			}
			others = append(others, foreign(neighbour, nodes)...)
		}
	}
	t.learnMarks(settled(others, r.Clock.Now()))
	return nil
}

// lower puts those plausible values into taught that are lower than the ones there. It returns a text for each value that is not plausible.
func (t *resolved) lower(taught v1alpha1.NodeTemplate, capacity, allocatable corev1.ResourceList) (refuted []string) {
	for _, l := range []struct {
		kind                 string
		into, from, expected corev1.ResourceList
	}{
		{"capacity", taught.Capacity, capacity, t.flavor},
		{"allocatable", taught.Allocatable, allocatable, t.Allocatable},
	} {
		for _, name := range learnt {
			most, known := t.flavor[name]
			reported, ok := l.from[name]
			if !known || !ok || slices.Contains(t.given, name) {
				continue
			}
			before, there := l.into[name]
			if expected := l.expected[name]; !plausible(reported, expected, most) {
				refuted = append(refuted, fmt.Sprintf("%s %s=%s (possible: from %d %% of %s to %s)", l.kind, name, reported.String(), leastShare, expected.String(), most.String()))
			} else if !there || reported.Cmp(before) < 0 {
				l.into[name] = reported.DeepCopy()
			}
		}
	}
	return refuted
}

// leastShare is the least share of an expected resource, in percent, that a node may report.
const leastShare = 80

// plausible reports whether a node may report a value: drover computes what is expected, and the flavor has most. A user with root rights on
// a node chooses what its kubelet reports, so other values do not count for other nodes (F-91).
func plausible(reported, expected, most resource.Quantity) bool {
	return reported.Sign() > 0 && reported.Cmp(most) <= 0 && 100*reported.AsApproximateFloat64() >= leastShare*expected.AsApproximateFloat64()
}

// ownNodes returns the Ready nodes with the subject's current template and kubelet settings, sorted by name.
func (r *Reconciler) ownNodes(ctx context.Context, s *subject, settings bootstrap.KubeletSettings) ([]*corev1.Node, error) {
	sets, err := r.presentSets(ctx, s)
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	var machines v1alpha1.MachineList
	// The listed objects are not changed, so deep copies, which are expensive for a large group, are not needed.
	if err := r.client.List(ctx, &machines, client.InNamespace(s.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var nodes []*corev1.Node
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
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
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
