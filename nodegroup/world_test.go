package nodegroup

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
)

// noon is when every test takes place.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const namespace = "kube-system"

// world is a cluster as a test describes it.
type world struct {
	Deployments []*v1alpha1.MachineDeployment
	Sets        []*v1alpha1.MachineSet
	Machines    []*v1alpha1.Machine
	Nodes       []*corev1.Node
	serial      int
}

func newWorld() *world { return &world{} }

func (w *world) meta(name string) metav1.ObjectMeta {
	w.serial++
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1,
		ResourceVersion: strconv.Itoa(w.serial), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
	}
}

// pool adds a deployment of that size with bounds, and its one set.
func (w *world) pool(name string, replicas, low, high int32) *pool {
	d := &v1alpha1.MachineDeployment{ObjectMeta: w.meta(name)}
	d.Annotations = map[string]string{
		v1alpha1.AnnotationsMinSize[0]: strconv.Itoa(int(low)),
		v1alpha1.AnnotationsMaxSize[0]: strconv.Itoa(int(high)),
	}
	d.Spec.Replicas = ptr.To(replicas)
	d.Spec.Selector.MatchLabels = map[string]string{"pool": name}
	d.Spec.Template.Metadata.Labels = map[string]string{"pool": name}
	w.Deployments = append(w.Deployments, d)
	p := &pool{world: w, deployment: d}
	p.set = p.revision(1)
	return p
}

// pool is a deployment with its newest set.
type pool struct {
	world      *world
	deployment *v1alpha1.MachineDeployment
	set        *v1alpha1.MachineSet
}

func (p *pool) id() string { return ID(namespace, p.deployment.Name) }

// revision adds a set of that revision.
func (p *pool) revision(n int) *v1alpha1.MachineSet {
	s := &v1alpha1.MachineSet{ObjectMeta: p.world.meta(p.deployment.Name + "-r" + strconv.Itoa(n))}
	s.Annotations = map[string]string{v1alpha1.AnnotationRevision: strconv.Itoa(n)}
	s.Spec.Selector.MatchLabels = map[string]string{"pool": p.deployment.Name}
	s.Spec.Template.Metadata.Labels = map[string]string{"pool": p.deployment.Name}
	s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.deployment, v1alpha1.MachineDeploymentKind)}
	p.world.Sets = append(p.world.Sets, s)
	return s
}

// machine adds a Machine without a server to the newest set.
func (p *pool) machine(name string, change ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: p.world.meta(name)}
	m.Labels = map[string]string{"pool": p.deployment.Name}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p.set, v1alpha1.MachineSetKind)}
	for _, c := range change {
		c(m)
	}
	p.world.Machines = append(p.world.Machines, m)
	return m
}

// node adds a Machine with a server and a registered node.
func (p *pool) node(name string, change ...func(*v1alpha1.Machine)) (*v1alpha1.Machine, *corev1.Node) {
	m := p.machine(name, append([]func(*v1alpha1.Machine){withServer}, change...)...)
	m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name}
	n := &corev1.Node{ObjectMeta: p.world.meta(name), Spec: corev1.NodeSpec{ProviderID: *m.Spec.ProviderID}}
	n.Namespace = ""
	p.world.Nodes = append(p.world.Nodes, n)
	return m, n
}

// serverOf returns the ID of the server of the Machine with that name.
func serverOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func providerID(name string) string { return "openstack:///" + serverOf(name) }

func withServer(m *v1alpha1.Machine) {
	m.Spec.ProviderID = ptr.To(providerID(m.Name))
	m.Finalizers = []string{v1alpha1.FinalizerServer}
}

func deleting(m *v1alpha1.Machine) {
	m.DeletionTimestamp = ptr.To(metav1.NewTime(noon.Add(-time.Minute)))
	m.Finalizers = []string{v1alpha1.FinalizerServer}
}

func failed(code fault.Code, message string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.ErrorReason, m.Status.ErrorMessage = ptr.To(string(code)), &message
		m.Status.LastOperation = &v1alpha1.LastOperation{LastUpdated: ptr.To(metav1.NewTime(noon.Add(-time.Minute)))}
	}
}

func (p *pool) remove(machines ...*v1alpha1.Machine) {
	for _, m := range machines {
		p.deployment.Spec.Removals = append(p.deployment.Spec.Removals, v1alpha1.Removal{Name: m.Name, UID: m.UID, Time: metav1.NewTime(noon)})
	}
}

// objects are what a client holds.
func (w *world) objects() []client.Object {
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

// fake is the node that the autoscaler makes up for an instance.
func fake(id, reason string) Node {
	return Node{ProviderID: id, Name: id, Annotations: map[string]string{"k8s.io/cluster-autoscaler/fake-node-reason": reason}}
}

// asked is a real node as a request describes it.
func asked(n *corev1.Node) Node {
	return Node{ProviderID: n.Spec.ProviderID, Name: n.Name, Labels: n.Labels, Annotations: n.Annotations}
}

func machineID(p *pool, name string) string {
	return p.id() + "/machine/" + name
}

func unitID(p *pool, series, ordinal int32) string {
	return fmt.Sprintf("%s/%d/%d", p.id(), series, ordinal)
}

func rawSpec(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// takesPods makes a Machine one whose node is Ready.
func takesPods(m *v1alpha1.Machine) {
	m.Status.Conditions = []v1alpha1.MachineCondition{{Type: v1alpha1.ConditionReady, Status: corev1.ConditionTrue}}
}

func nodeTemplate() *v1alpha1.NodeTemplate {
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

// large is a cluster of that many nodes in that many groups.
func large(nodes, groups int) *world {
	w := newWorld()
	for g := range groups {
		p := w.pool(fmt.Sprintf("pool-%03d", g), int32(nodes/groups), 0, int32(nodes))
		for i := range nodes / groups {
			p.node(fmt.Sprintf("pool-%03d-%05d", g, i))
		}
	}
	return w
}
