package autoscaler

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// pool is a node group and the pods that can run only on its nodes.
type pool struct {
	name string
	// pods is the number of pods that the pool's ReplicaSet wants. No node has room for two of them.
	pods int
	// boot is how long a server takes to become a node. settle is how long that node is not ready. drain is how long
	// the drain of a busy node takes.
	boot, settle, drain time.Duration
	// join is the time after which the Machine controller replaces a server whose node has not registered. Zero means never.
	join time.Duration
	// quota is the maximum number of servers. A negative quota means no limit.
	quota int
	// lost reports whether the nth machine of the pool, counted from 1, never becomes a node.
	lost func(n int) bool
	// providerID returns the provider ID that a node of the given age has. When it is nil, a node has its server's provider
	// ID from the start.
	providerID func(server string, age time.Duration) string
	made       int
	// flexible is true when the pool's pods may run on the nodes of any pool.
	flexible bool
	// refused is true when the API server refuses the pool's Machines, in scenarios that use refusedMachines.
	refused bool
	// noTemplate is true when the group has no template for its nodes.
	noTemplate bool
	// annotations are those of the deployment, besides the bounds. labels are those of the pool's nodes, besides the label
	// with the pool's name.
	annotations, labels map[string]string
	// machineAnnotations are those of the Machine template.
	machineAnnotations map[string]string
	// version is the kubelet version in the template. A Machine with another version has an old template.
	version string
	owner   *appsv1.ReplicaSet
}

func (p *pool) id() string { return "MachineDeployment/" + namespace + "/" + p.name }

func (p *pool) withDefaults() {
	if p.boot == 0 {
		p.boot = time.Minute
	}
	if p.lost == nil {
		p.lost = func(int) bool { return false }
	}
	if p.providerID == nil {
		p.providerID = func(server string, _ time.Duration) string { return "openstack:///" + server }
	}
	if p.quota == 0 {
		p.quota = -1
	}
	p.version = "1.37.1"
	labels := map[string]string{labelPool: p.name}
	maps.Copy(labels, p.labels)
	p.labels = labels
}

// pool creates a node group with the given size and bounds, and a ReplicaSet that wants p.pods pods.
func (w *world) pool(p pool, low, size, high int) *pool {
	p.withDefaults()
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: p.name,
		Annotations: map[string]string{v1alpha1.AnnotationsMinSize[0]: fmt.Sprint(low), v1alpha1.AnnotationsMaxSize[0]: fmt.Sprint(high)},
	}}
	maps.Copy(d.Annotations, p.annotations)
	own := map[string]string{labelPool: p.name}
	d.Spec.Replicas = ptr.To(int32(size))
	d.Spec.Selector.MatchLabels = own
	d.Spec.Template.Metadata.Labels, d.Spec.Template.Metadata.Annotations = own, p.machineAnnotations
	d.Spec.Template.Spec.Versions.Kubelet = p.version
	w.must(w.admin.Create(w.ctx, d))
	if !p.noTemplate {
		w.reveal(&p)
	}
	p.owner = &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: p.name}}
	w.must(w.admin.Create(w.ctx, p.owner))
	w.pools = append(w.pools, &p)
	return &p
}

// reveal writes the template of a pool's nodes into the status of its deployment, as drover's capacity controller does.
func (w *world) reveal(p *pool) {
	d := w.deployment(p)
	before := d.DeepCopy()
	d.Status.NodeTemplate = &v1alpha1.NodeTemplate{Capacity: size2x8(), Allocatable: size2x8(), Labels: maps.Clone(p.labels)}
	d.Status.NodeTemplate.Labels[v1alpha1.LabelManaged] = "true"
	w.must(w.admin.Status().Patch(w.ctx, d, client.MergeFrom(before), client.FieldOwner("drover-capacity")))
}

func (w *world) deployment(p *pool) *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{}
	w.must(w.admin.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: p.name}, d))
	return d
}

// edit changes a pool's deployment, as a user does.
func (w *world) edit(p *pool, how func(d *v1alpha1.MachineDeployment)) {
	d := w.deployment(p)
	before := d.DeepCopy()
	how(d)
	w.must(w.admin.Patch(w.ctx, d, client.MergeFrom(before)))
}

func size2x8() corev1.ResourceList { return size("2", "8Gi") }
