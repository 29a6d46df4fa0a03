//go:build cluster

package ends

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/capacity"
	"github.com/drover-project/drover/machines/classprotection"
	"github.com/drover-project/drover/machines/csr"
	"github.com/drover-project/drover/machines/deployment"
	"github.com/drover-project/drover/machines/health"
	"github.com/drover-project/drover/machines/health/verdict"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/nodes"
	"github.com/drover-project/drover/machines/machine/steps"
	"github.com/drover-project/drover/machines/openstack"
	"github.com/drover-project/drover/machines/openstack/spec"
	"github.com/drover-project/drover/machines/set"
	"github.com/drover-project/drover/nodegroup"
	"github.com/drover-project/drover/nodegroup/model"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

const namespace = metav1.NamespaceSystem

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
		var in meta.RESTScope = meta.RESTScopeNamespace
		switch gvk.Kind {
		case "Node", "Namespace", "CertificateSigningRequest", "PersistentVolume", "VolumeAttachment":
			in = meta.RESTScopeRoot
		}
		m.Add(gvk, in)
	}
	return m
}()

// world is a simulated cluster, a simulated cloud, and drover between them. It must be created and used in a bubble of
// testing/synctest.
type world struct {
	*testing.T
	kube     *memory.Server
	cloud    *sim.Cloud
	admin    client.Client
	registry *prometheus.Registry
	groups   *nodegroup.Groups
	stop     context.CancelFunc
	all      sync.WaitGroup
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, registry: prometheus.NewRegistry()}
	objects, err := deploy.Objects("crds")
	w.must(err)
	catalog, err := memory.NewCatalog(objects...)
	w.must(err)
	w.kube, err = memory.New(memory.Options{Catalog: catalog, NodesUntainted: true, CollectAfter: time.Second})
	w.must(err)
	w.cloud = sim.New(sim.Config{Seed: sim.SeedMetaKube, BootTime: 20 * time.Second, DeleteTime: 5 * time.Second})
	w.admin, err = client.New(w.kube.Config("admin", "system:masters"), client.Options{Scheme: kinds, Mapper: mapper})
	w.must(err)
	kubeconfig := `apiVersion: v1
kind: Config
clusters: [{name: "", cluster: {server: "` + memory.Host + `", certificate-authority-data: Y2E=}}]
`
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info", Namespace: metav1.NamespacePublic}, Data: map[string]string{"kubeconfig": kubeconfig}})
	w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: namespace}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}})
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	mgr := w.drover()
	w.all.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) close() {
	w.stop()
	w.all.Wait()
	w.cloud.Close()
}

func (w *world) create(o client.Object) {
	w.Helper()
	w.must(w.admin.Create(w.Context(), o))
}

// drover returns a manager with the same controllers as cmd/drover, but without the lease, gRPC and the debug pages.
func (w *world) drover() manager.Manager {
	w.Helper()
	kube := w.kube.ConfigOver(w.kube.RoundTripper("drover"))
	kube.QPS = -1
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme: kinds, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		GracefulShutdownTimeout: ptr.To(10 * time.Second), Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}},
		}},
	})
	w.must(err)
	now := clock.RealClock{}
	os, err := openstack.New(openstack.Options{
		Clock: now, Options: spec.Options{Reader: mgr.GetClient()}, ClusterID: "ends", HTTP: w.cloud.RoundTripper(), Registry: w.registry,
		AllowedEndpoints: []string{w.cloud.AuthURL()}, Guarded: func() bool { return true },
	})
	w.must(err)
	w.must(mgr.Add(os))
	source := bootstrap.New(bootstrap.Options{
		Control: mgr, Target: mgr, ProviderIDs: os, Clock: now, StartupTaint: v1alpha1.DefaultStartupTaint,
	})
	w.must(mgr.Add(&bootstrap.Collector{Source: source, Clock: now}))
	unhealthy, err := health.New(health.Options{Control: mgr, Target: mgr, Clock: now, Registry: w.registry, Settings: verdict.Settings{
		Timeout: 10 * time.Minute, MaxUnhealthy: 40, Join: 10 * time.Minute,
	}})
	w.must(err)
	for _, controller := range []interface {
		SetupWithManager(manager.Manager) error
	}{
		machine.New(machine.Options{Control: mgr, Target: mgr, Cloud: os, Bootstrap: source, Clock: now, Nodes: steps.NodeOptions{Start: nodes.StartRules{Taint: v1alpha1.DefaultStartupTaint}}}),
		set.New(set.Options{Control: mgr, Clock: now, PlaceRecord: os.PlaceRecord, Suffix: func() string { return utilrand.String(8) }}),
		classprotection.New(classprotection.Options{Control: mgr}),
		deployment.New(deployment.Options{Control: mgr, Target: mgr, Clock: now}),
		unhealthy,
		csr.New(csr.Options{Control: mgr, Target: mgr, Clock: now, Servers: os}),
		capacity.New(capacity.Options{Control: mgr, Target: mgr, Cloud: os, Clock: now}),
	} {
		w.must(controller.SetupWithManager(mgr))
	}
	w.groups = nodegroup.New(nodegroup.Options{Control: mgr, Target: mgr, Discovery: model.Discovery{Cloud: os}, Registry: w.registry})
	w.must(mgr.Add(w.groups))
	return mgr
}

// tenant creates a cloud project with its own user, and a Secret with that user's password. It returns the fields of a
// provider spec that uses them.
func (w *world) tenant(name string) map[string]any {
	w.Helper()
	w.cloud.AddProject(name, sim.MetaKubeDomain)
	w.cloud.AddUser(sim.User{Name: name, Password: name, Projects: []string{name}})
	network := w.cloud.AddNetwork(sim.Network{Name: name, Project: name})
	_, err := w.cloud.AddSubnet(sim.Subnet{Name: name, Network: network, CIDR: "10.0.0.0/16"})
	w.must(err)
	w.cloud.AddSecurityGroup(name, name)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(name)}})
	return map[string]any{
		"identityEndpoint": w.cloud.AuthURL(), "region": sim.MetaKubeRegion, "username": name, "domainName": sim.MetaKubeDomain, "projectName": name,
		"password": map[string]any{"secretKeyRef": map[string]any{"namespace": namespace, "name": name, "key": "password"}},
		"flavor":   sim.MetaKubeFlavor, "image": sim.MetaKubeImage, "network": name, "securityGroups": []string{name},
	}
}

// deployment creates a MachineDeployment that is a node group.
func (w *world) deployment(name string, fields map[string]any, replicas int) *v1alpha1.MachineDeployment {
	w.Helper()
	raw, err := json.Marshal(map[string]any{"cloudProvider": "openstack", "operatingSystem": "ubuntu", "cloudProviderSpec": fields})
	w.must(err)
	labels := map[string]string{"pool": name}
	d := &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
		v1alpha1.AnnotationsMinSize[0]: "0", v1alpha1.AnnotationsMaxSize[0]: fmt.Sprint(2 * replicas),
	}}}
	d.Spec.Replicas = new(int32(replicas - 1))
	d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels = labels, labels
	d.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	d.Spec.Template.Spec.Versions.Kubelet = "1.37.1"
	w.create(d)
	return d
}
