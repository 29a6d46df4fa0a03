package world

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

const (
	// Namespace is the namespace of the Machines.
	Namespace = metav1.NamespaceSystem
	// MachineName is the name of the Machine in scenarios without a MachineSet.
	MachineName = "worker-1"
)

// Kinds is the scheme with the kinds that drover and the cluster use.
var Kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}()

// mapper maps kinds to resources.
var mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvk := range Kinds.AllKnownTypes() {
		var scope meta.RESTScope = meta.RESTScopeNamespace
		switch gvk.Kind {
		case "Node", "Namespace", "CertificateSigningRequest", "PersistentVolume", "VolumeAttachment":
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	m.Add(definition, meta.RESTScopeRoot)
	return m
}()

// installObjects creates the objects that a cluster's installer creates.
func (w *World) installObjects() error {
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
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: metav1.NamespacePublic}, Data: map[string]string{"kubeconfig": kubeconfig}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: metav1.NamespaceSystem}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}},
		w.replicas,
	} {
		if err := w.Admin.Create(w.Context, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// NewMachine returns a Machine with port, floating IP and boot volume. It is not created yet.
func (w *World) NewMachine() (*v1alpha1.Machine, error) {
	value, err := json.Marshal(map[string]any{
		"cloudProvider": "openstack", "operatingSystem": "ubuntu",
		"cloudProviderSpec": map[string]any{
			"identityEndpoint": w.Cloud.AuthURL(), "region": sim.MetaKubeRegion, "username": sim.MetaKubeUser, "password": sim.MetaKubePassword,
			"domainName": sim.MetaKubeDomain, "projectName": sim.MetaKubeProject,
			"flavor": sim.MetaKubeFlavor, "image": sim.MetaKubeImage, "network": sim.MetaKubeNetwork, "subnet": sim.MetaKubeSubnet,
			"securityGroups": []string{sim.MetaKubeSecurityGroup}, "floatingIpPool": sim.MetaKubePool,
			"rootDiskSizeGB": 30, "rootDiskVolumeType": sim.MetaKubeVolumeType,
		},
	})
	if err != nil {
		return nil, err
	}
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: MachineName, Namespace: Namespace}}
	m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: value}
	m.Spec.Versions.Kubelet = "1.37.1"
	return m, nil
}

// Machines returns all Machines.
func (w *World) Machines() ([]v1alpha1.Machine, error) {
	var list v1alpha1.MachineList
	if err := w.Admin.List(w.Context, &list, client.InNamespace(Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Machines: %w", err)
	}
	return list.Items, nil
}
