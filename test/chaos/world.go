package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/test/kube/memory"
	sim "github.com/drover-project/drover/test/openstack"
)

// namespace is where the Machines are.
const namespace = metav1.NamespaceSystem

// World is everything that a run happens in. It must be made and used inside a bubble of testing/synctest.
type World struct {
	Kube  *memory.Server
	Cloud *sim.Cloud

	admin client.Client
	turns *turns
	bytes *bytes
	// workers is how many Machines a process works on at a time: two, three or one.
	workers  int
	replicas *appsv1.ReplicaSet
	others   bystanders
	order    order
	// late: a create may arrive long after it was sent. held is how long the network holds back a create before which a process
	// dies; 0: such a create is never sent.
	late bool
	held time.Duration
	// mute: no server's kubelet ever starts.
	mute bool
	// volume: pods have one. used is when a pod last did.
	volume bool
	used   time.Time

	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	kubelets map[string]context.CancelFunc
	// leaving is when the first Machine was asked to go.
	leaving time.Time
	// ordered: a create was held back.
	ordered bool
}

// newWorld makes a cluster and a cloud with what is needed to make servers, and with what belongs to others.
func newWorld(catalog *memory.Catalog, seed uint64) (*World, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	kube, err := memory.New(memory.Options{Catalog: catalog, Lag: lagOf(random), NodesUntainted: true})
	if err != nil {
		return nil, err
	}
	drawn := newBytes(seed)
	w := &World{
		Kube: kube, bytes: drawn, workers: 1 + int(seed+1)%3, turns: newTurns(random), kubelets: map[string]context.CancelFunc{},
		Cloud: sim.New(sim.Config{
			Seed: sim.SeedMetaKube, Random: drawn, BootTime: 20 * time.Second, DeleteTime: 5 * time.Second,
			Latency: []time.Duration{0, 50 * time.Millisecond, time.Second}[seed%3],
		}),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.all.Go(func() { w.turns.run(w.ctx) })
	w.Cloud.OnBoot(w.booted)
	w.Cloud.OnGone(w.gone)
	if w.admin, err = client.New(kube.Config("admin", "system:masters"), client.Options{Scheme: kinds, Mapper: mapper}); err != nil {
		return nil, err
	}
	if err = w.furnish(); err == nil {
		w.others, err = w.placeBystanders()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// lagOf makes watches of a seed's world late by up to a second, the same for all of one resource; of every third seed
// they are not.
func lagOf(random *rand.Rand) func(user, resource string) time.Duration {
	base := time.Duration(random.IntN(3)) * 400 * time.Millisecond
	return func(user, resource string) time.Duration {
		if user != "drover" {
			return 0
		}
		return base * time.Duration(len(resource)%4) / 3
	}
}

// mapper knows which kinds are in a namespace.
var mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvk := range kinds.AllKnownTypes() {
		var scope meta.RESTScope = meta.RESTScopeNamespace
		switch gvk.Kind {
		case "Node", "Namespace", "CertificateSigningRequest", "PersistentVolume", "VolumeAttachment":
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	return m
}()

// close ends everything in the world.
func (w *World) close() {
	w.mu.Lock()
	for _, stop := range w.kubelets {
		stop()
	}
	w.mu.Unlock()
	w.stop()
	w.Cloud.Close()
	w.all.Wait()
}

// furnish puts into the cluster what an installer leaves.
func (w *World) furnish() error {
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
		if err := w.admin.Create(w.ctx, o); err != nil {
			return fmt.Errorf("furnishing the cluster with %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// newMachine describes a Machine with port, floating IP and boot volume.
func (w *World) newMachine() (*v1alpha1.Machine, error) {
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
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: machineName, Namespace: namespace}}
	m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: value}
	m.Spec.Versions.Kubelet = "1.37.1"
	return m, nil
}

// booted starts a server's kubelet, unless the server has no network; gone ends it.
func (w *World) booted(s sim.Server) {
	if w.mute || w.others.has(s.ID) || w.others.ids == nil || len(s.Ports) == 0 {
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kubelets[s.ID] = stop
	w.all.Go(func() { w.runKubelet(ctx, s) })
}

func (w *World) gone(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop := w.kubelets[id]; stop != nil {
		stop()
	}
}
