package pools

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/fault"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/nodegroup/model/membership"
)

// Noon is the time at which every test starts.
var Noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// Namespace holds the objects of every pool.
const Namespace = "kube-system"

// OpenStack is the provider of the Machines.
var OpenStack = provider.Provider{}

// World is the cluster that a test describes.
type World struct {
	Deployments []*v1alpha1.MachineDeployment
	Sets        []*v1alpha1.MachineSet
	Machines    []*v1alpha1.Machine
	Nodes       []*corev1.Node
	serial      int
}

// NewWorld returns an empty cluster.
func NewWorld() *World { return &World{} }

// Meta returns the metadata of a new object. Its age is an hour.
func (w *World) Meta(name string) metav1.ObjectMeta {
	w.serial++
	return metav1.ObjectMeta{
		Namespace: Namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1,
		ResourceVersion: strconv.Itoa(w.serial), CreationTimestamp: metav1.NewTime(Noon.Add(-time.Hour)),
	}
}

// Pool adds a MachineDeployment with this size and these bounds, and one MachineSet.
func (w *World) Pool(name string, replicas, low, high int32) *Pool {
	d := &v1alpha1.MachineDeployment{ObjectMeta: w.Meta(name)}
	d.Annotations = map[string]string{
		v1alpha1.AnnotationsMinSize[0]: strconv.Itoa(int(low)),
		v1alpha1.AnnotationsMaxSize[0]: strconv.Itoa(int(high)),
	}
	d.Spec.Replicas = ptr.To(replicas)
	d.Spec.Selector.MatchLabels = map[string]string{"pool": name}
	d.Spec.Template.Metadata.Labels = map[string]string{"pool": name}
	w.Deployments = append(w.Deployments, d)
	p := &Pool{World: w, Deployment: d}
	p.Set = p.Revision(1)
	return p
}

// Pool is a MachineDeployment with its newest MachineSet.
type Pool struct {
	World      *World
	Deployment *v1alpha1.MachineDeployment
	Set        *v1alpha1.MachineSet
}

// ID returns the ID of the pool's node group.
func (p *Pool) ID() string { return membership.ID(Namespace, p.Deployment.Name) }

// Revision adds a MachineSet with the revision n.
func (p *Pool) Revision(n int) *v1alpha1.MachineSet {
	s := &v1alpha1.MachineSet{ObjectMeta: p.World.Meta(p.Deployment.Name + "-r" + strconv.Itoa(n))}
	s.Annotations = map[string]string{v1alpha1.AnnotationRevision: strconv.Itoa(n)}
	s.Spec.Selector.MatchLabels = map[string]string{"pool": p.Deployment.Name}
	s.Spec.Template.Metadata.Labels = map[string]string{"pool": p.Deployment.Name}
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.Deployment, v1alpha1.MachineDeploymentKind)}
	p.World.Sets = append(p.World.Sets, s)
	return s
}

// Machine adds a Machine without a server to the newest MachineSet.
func (p *Pool) Machine(name string, change ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: p.World.Meta(name)}
	m.Labels = map[string]string{"pool": p.Deployment.Name}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.Set, v1alpha1.MachineSetKind)}
	for _, c := range change {
		c(m)
	}
	p.World.Machines = append(p.World.Machines, m)
	return m
}

// Node adds a Machine with a server and a registered Node.
func (p *Pool) Node(name string, change ...func(*v1alpha1.Machine)) (*v1alpha1.Machine, *corev1.Node) {
	m := p.Machine(name, append([]func(*v1alpha1.Machine){WithServer}, change...)...)
	m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
	n := &corev1.Node{ObjectMeta: p.World.Meta(name), Spec: corev1.NodeSpec{ProviderID: *m.Spec.ProviderID}}
	n.Namespace = ""
	p.World.Nodes = append(p.World.Nodes, n)
	return m, n
}

// ServerOf returns the server ID of the Machine with that name.
func ServerOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// ProviderID returns the provider ID of the Machine with that name.
func ProviderID(name string) string { return "openstack:///" + ServerOf(name) }

// WithServer sets the provider ID of a Machine, as if it had a server.
func WithServer(m *v1alpha1.Machine) {
	m.Spec.ProviderID = ptr.To(ProviderID(m.Name))
	m.Finalizers = []string{v1alpha1.FinalizerServer}
}

// Deleting sets the deletion timestamp of a Machine.
func Deleting(m *v1alpha1.Machine) {
	m.DeletionTimestamp = ptr.To(metav1.NewTime(Noon.Add(-time.Minute)))
	m.Finalizers = []string{v1alpha1.FinalizerServer}
}

// Failed returns a change that records in a Machine's status a failure of a minute ago.
func Failed(code fault.Code, message string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.ErrorReason, m.Status.ErrorMessage = ptr.To(string(code)), &message
		m.Status.LastOperation = &v1alpha1.LastOperation{LastUpdated: ptr.To(metav1.NewTime(Noon.Add(-time.Minute)))}
	}
}

// Remove adds Machines to the removals of the deployment.
func (p *Pool) Remove(machines ...*v1alpha1.Machine) {
	for _, m := range machines {
		p.Deployment.Spec.Removals = append(p.Deployment.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.NewTime(Noon)})
	}
}

// Objects returns all objects of the cluster, for a fake client.
func (w *World) Objects() []client.Object {
	var list []client.Object
	for _, d := range w.Deployments {
		list = append(list, d)
	}
	for _, s := range w.Sets {
		list = append(list, s)
	}
	for _, m := range w.Machines {
		list = append(list, m)
	}
	for _, n := range w.Nodes {
		list = append(list, n)
	}
	return list
}

// Fake returns the node that the autoscaler sends in place of an instance without a Node.
func Fake(id, reason string) membership.Node {
	return membership.Node{ProviderID: id, Name: id, Annotations: map[string]string{"k8s.io/cluster-autoscaler/fake-node-reason": reason}}
}

// Asked returns a Node as a request of the autoscaler describes it.
func Asked(n *corev1.Node) membership.Node {
	return membership.Node{ProviderID: n.Spec.ProviderID, Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
}

// MachineID returns the ID of the placeholder of a Machine.
func MachineID(p *Pool, name string) string {
	return p.ID() + "/machine/" + name
}

// UnitID returns the ID of the placeholder of a replica without a Machine.
func UnitID(p *Pool, series, ordinal int32) string {
	return fmt.Sprintf("%s/%d/%d", p.ID(), series, ordinal)
}

// RawSpec returns a provider spec with that JSON.
func RawSpec(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// TakesPods changes a Machine to one with a Ready Node.
func TakesPods(m *v1alpha1.Machine) {
	m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}}
}

// NodeTemplate returns the template of a Node with GPUs.
func NodeTemplate() *v1alpha1.NodeTemplate {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("7Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("40Gi"),
	}
	labels := map[string]string{}
	for _, key := range []string{"f", "a", "d", "b", "e", "c"} {
		labels[key] = key
	}
	labels[corev1.LabelOSStable], labels[corev1.LabelArchStable] = "linux", "arm64"
	return &v1alpha1.NodeTemplate{Capacity: list, Allocatable: list, Labels: labels,
		Taints: []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}}
}

// Large returns a cluster with this many Nodes and groups.
func Large(nodes, groups int) *World {
	w := NewWorld()
	for g := range groups {
		p := w.Pool(fmt.Sprintf("pool-%03d", g), int32(nodes/groups), 0, int32(nodes))
		for i := range nodes / groups {
			p.Node(fmt.Sprintf("pool-%03d-%05d", g, i))
		}
	}
	return w
}
