package day

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

const (
	namespace = metav1.NamespaceSystem
	// Namespace is drover's own namespace.
	Namespace = "drover"
	labelPool = "pool"
)

// kinds is the scheme with the kinds that drover and the cluster use.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}()

// mapper maps kinds to resources.
var mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvk := range kinds.AllKnownTypes() {
		var scope meta.RESTScope = meta.RESTScopeNamespace
		switch gvk.Kind {
		case "Node", "Namespace", "CertificateSigningRequest", "PersistentVolume", "VolumeAttachment", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	m.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	return m
}()

// pool is a MachineDeployment in one zone, which is a node group.
type pool struct {
	name, zone       string
	least, most, now int
}

// pools are the node groups of the cluster, each with its name, zone, minimum, maximum and initial size.
var pools = []pool{{"pool-a", "zone-a", 1, 8, 2}, {"pool-b", "zone-b", 1, 8, 2}, {"pool-c", "zone-c", 1, 8, 2}}

// hostsOfAZone is the number of physical hosts in a zone.
const hostsOfAZone = 4

// flavor is the flavor of all servers: 4 CPUs and 16 GiB.
const flavor = "m1.medium"

// installObjects creates in the cluster and the cloud what an installer creates.
func (w *World) installObjects() error {
	for _, p := range pools {
		for i := range hostsOfAZone {
			w.Cloud.SetHost(sim.Host{Name: fmt.Sprintf("%s-%d", p.zone, i), Zone: p.zone, Cell: "cell1", VCPUs: 64, RAM: 512 << 10, Disk: 1 << 20})
		}
	}
	var objects []client.Object
	for _, part := range []string{"crds", "policies"} {
		all, err := deploy.Objects(part)
		if err != nil {
			return err
		}
		for _, o := range all {
			objects = append(objects, o)
		}
	}
	objects = append(objects, w.clusterObjects()...)
	for _, p := range pools {
		d, err := w.deployment(p)
		if err != nil {
			return err
		}
		objects = append(objects, d)
	}
	for _, o := range objects {
		if err := w.Admin.Create(w.ctx, o); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

func (w *World) clusterObjects() []client.Object {
	kubeconfig := `apiVersion: v1
kind: Config
clusters: [{name: "", cluster: {server: "` + memory.Host + `", certificate-authority-data: Y2E=}}]
`
	w.replicas = &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "work", Namespace: metav1.NamespaceDefault},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "work"}}},
		},
	}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: metav1.NamespacePublic}, Data: map[string]string{"kubeconfig": kubeconfig}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: namespace}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}},
		w.replicas,
	}
}

// deployment returns the MachineDeployment of a pool. Its servers have a floating IP, and use the credentials of the configured
// cloud.
func (w *World) deployment(p pool) (*v1alpha1.MachineDeployment, error) {
	raw, err := json.Marshal(map[string]any{
		"cloudProvider": "openstack", "operatingSystem": "ubuntu",
		"cloudProviderSpec": map[string]any{
			"flavor": flavor, "image": sim.MetaKubeImage, "network": sim.MetaKubeNetwork, "subnet": sim.MetaKubeSubnet, "availabilityZone": p.zone,
			"securityGroups": []string{sim.MetaKubeSecurityGroup}, "floatingIpPool": sim.MetaKubePool,
		},
	})
	if err != nil {
		return nil, err
	}
	labels := map[string]string{labelPool: p.name}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.name, Annotations: map[string]string{
		v1alpha1.AnnotationsMinSize[0]: fmt.Sprint(p.least), v1alpha1.AnnotationsMaxSize[0]: fmt.Sprint(p.most),
	}}}
	d.Spec.Replicas = new(int32(p.now))
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	return d, nil
}
