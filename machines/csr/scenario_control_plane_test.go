package csr

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-project/drover/deploy"
	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/test/kube"
	"github.com/drover-project/drover/test/kubelet"
)

// plane is a real control plane. Of drover's controllers, only the approver of certificate requests runs.
type plane struct {
	*testing.T
	ctx    context.Context
	kube   *kube.Cluster
	client client.Client
	mgr    manager.Manager
	source *bootstrap.Source
	// servers is the cloud's inventory.
	servers *servers
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &plane{T: t, ctx: ctx, servers: newServers(), kube: kube.ForTest(t, kube.Options{Components: []kube.Component{kube.ControllerManager}})}
	scheme := runtime.NewScheme()
	p.must(clientgoscheme.AddToScheme(scheme))
	p.must(v1alpha1.AddToScheme(scheme))
	var err error
	p.client, err = client.New(p.kube.Config, client.Options{Scheme: scheme})
	p.must(err)
	p.must(deploy.Apply(ctx, p.client, "crds"))
	// The test's API server does not publish its own address in an EndpointSlice, so the test does.
	p.must(p.client.Create(ctx, apiServerSlice("192.0.2.10")))
	log := zap.New(zap.UseDevMode(true), zap.WriteTo(t.Output()))
	ctrl.SetLogger(log)
	p.mgr, err = ctrl.NewManager(p.kube.Config, ctrl.Options{
		Scheme: scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	p.must(err)
	p.source = bootstrap.New(bootstrap.Options{Control: p.mgr, Target: p.mgr, ProviderIDs: provider.Provider{}, Clock: clock.RealClock{}, StartupTaint: v1alpha1.DefaultStartupTaint})
	p.must(New(Options{Control: p.mgr, Target: p.mgr, Clock: clock.RealClock{}, Servers: p.servers, Reserved: Reserved{Domain: "cluster.local"}}).SetupWithManager(p.mgr))
	ended := make(chan error, 1)
	go func() { ended <- p.mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *plane) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// within runs a part of the test as a subtest.
func (p *plane) within(name string, part func(p *plane)) {
	p.Run(name, func(t *testing.T) {
		inner := *p
		inner.T = t
		part(&inner)
	})
}

// beside is like within, but runs the part in parallel with other such parts, after all parts that within runs.
func (p *plane) beside(name string, part func(p *plane)) {
	p.within(name, func(p *plane) {
		p.Parallel()
		part(p)
	})
}

func (p *plane) until(what string, ok func() bool) {
	p.Helper()
	err := wait.PollUntilContextTimeout(p.ctx, 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		p.Fatalf("waiting until %s: %v", what, err)
	}
}

// machine creates a Machine whose server has the address 10.0.0.5 and has not joined yet.
func (p *plane) machine(name, server string, owner client.Object, kind string) *v1alpha1.Machine {
	p.Helper()
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1alpha1.MachineSpec{
			Versions:   v1alpha1.MachineVersionInfo{Kubelet: "1.37.1"},
			ProviderID: ptr.To("openstack:///" + server),
			Metadata:   v1alpha1.EmbeddedMetadata{Labels: map[string]string{"team": "blue", "node-role.kubernetes.io/worker": ""}},
		},
	}
	if owner != nil {
		m.OwnerReferences = ownedBy(owner, kind)
	}
	p.must(p.client.Create(p.ctx, m))
	p.servers.add(m, server, "10.0.0.5")
	p.seen(m)
	return m
}

func ownedBy(owner client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}}
}

// seen waits until drover's cache shows the current version of an object.
func (p *plane) seen(o client.Object) {
	p.Helper()
	key := client.ObjectKeyFromObject(o)
	have := o.DeepCopyObject().(client.Object)
	p.until("the cache shows "+key.String(), func() bool {
		return p.mgr.GetClient().Get(p.ctx, key, have) == nil && have.GetResourceVersion() == o.GetResourceVersion()
	})
}

// joined records the node of a Machine, as the Machine controller does.
func (p *plane) joined(m *v1alpha1.Machine, addresses ...corev1.NodeAddress) {
	p.Helper()
	base := m.DeepCopy()
	m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: m.Name}
	m.Status.Addresses = addresses
	p.must(p.client.Patch(p.ctx, m, client.MergeFrom(base)))
	p.seen(m)
}

// journal holds what the systemd units of a simulated server have printed.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (c *journal) print(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

func (c *journal) count(line string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if l == line {
			n++
		}
	}
	return n
}

// boot runs a simulated server with the given user data.
func (p *plane) boot(server, name string, userData []byte) *journal {
	metadata := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if strings.HasSuffix(in.URL.Path, "user_data") {
			_, _ = out.Write(userData)
			return
		}
		_ = json.NewEncoder(out).Encode(map[string]string{"uuid": server, "name": name})
	}))
	c := &journal{}
	ctx, stop := context.WithCancel(p.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		_ = kubelet.Run(ctx, kubelet.Options{
			MetadataURL: metadata.URL, InstanceID: server, Journal: c.print, Rotate: 400 * time.Millisecond,
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "ephemeral-storage": resource.MustParse("20Gi")},
		})
	})
	p.Cleanup(func() {
		stop()
		running.Wait()
		metadata.Close()
		if p.Failed() {
			p.Log(strings.Join(c.lines, "\n"))
		}
	})
	return c
}

func TestEachNodeGetsOnlyItsOwnCertificatesOnARealControlPlane(t *testing.T) {
	p := newPlane(t)
	for _, system := range []string{"ubuntu", "flatcar"} {
		p.beside("a server with "+system+" boots with drover's user data, registers its provider ID (CA-C42) and renews both certificates (MC-58)", func(p *plane) { testLife(p, system) })
	}
	p.within("a bootstrap token gets no certificate but its own node's (MC-58)", testDenied)
	// This part runs in parallel, because the API server may accept a token for 10 s after it has expired.
	p.beside("the API server refuses a bootstrap token that has expired or was deleted (MC-58)", testExpiredToken)
	p.within("operating-system-manager's token for a deployment gets certificates only for that deployment's unjoined servers (MC-58)", testSharedToken)
	p.within("a compromised kubelet gets only its own certificates (MC-58)", testCompromisedKubelet)
	p.within("a node gets no serving certificate for an address that the cloud does not list or that the API server has (F-2)", testForgedAddresses)
	p.within("a Machine that uses another node's name gets an Event and does not stop that node's certificates (F-7)", testSquatter)
	p.within("a bootstrap token is deleted when its Machine has joined or no longer exists", testCollect)
	p.within("drover has a kubelet register its Node with exactly those labels that the API server accepts from a kubelet", testLabels)
	p.within("drover warns about an RBAC binding with which Kubernetes approves requests of bootstrap tokens (MC-58)", testGuard)
}

func testLife(p *plane, system string) {
	name, server := "life-"+system, "0a1b2c3d-0000-4000-8000-00000000000"+map[string]string{"ubuntu": "1", "flatcar": "2"}[system]
	m := p.machine(name, server, nil, "")
	// Each node needs an address of its own, because drover refuses the address of an older node.
	address := "10.0.1." + server[len(server)-1:]
	p.servers.add(m, server, address)
	userData, err := p.source.UserData(p.ctx, m, &v1alpha1.ProviderConfig{OperatingSystem: system})
	p.must(err)
	printed := p.boot(server, name, userData)
	var n corev1.Node
	p.until("the node registers", func() bool { return p.client.Get(p.ctx, types.NamespacedName{Name: name}, &n) == nil })
	if n.Spec.ProviderID != "openstack:///"+server || n.Labels["team"] != "blue" || n.Status.NodeInfo.KubeletVersion != "v1.37.1" {
		p.Errorf("node %+v %v", n.Spec, n.Labels)
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.DefaultStartupTaint }) {
		p.Errorf("taints %v", n.Spec.Taints)
	}
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}}
	p.joined(m, addresses...)
	base := n.DeepCopy()
	n.Status.Addresses = addresses
	p.must(p.client.Status().Patch(p.ctx, &n, client.MergeFrom(base)))
	for _, line := range []string{"kubelet: serving certificate is granted", "kubelet: serving certificate is renewed", "kubelet: client certificate is renewed"} {
		p.until("the journal contains "+line, func() bool { return printed.count(line) > 0 })
	}
	renewed := printed.count("kubelet: client certificate is renewed")
	p.until("it is renewed again with the renewed certificate", func() bool { return printed.count("kubelet: client certificate is renewed") > renewed })
}

// request creates a certificate request, with the credentials in config. It ignores the user and groups of the attempt.
func (p *plane) request(config *rest.Config, name string, what attempt) error {
	p.Helper()
	// All clients share one REST mapper. With its own mapper, each client would ask the API server for all its kinds.
	c, err := client.New(config, client.Options{Scheme: p.client.Scheme(), Mapper: p.client.RESTMapper()})
	p.must(err)
	return c.Create(p.ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: requestFor(p.T, what.request), SignerName: what.signer, Usages: what.usages},
	})
}

// ask creates a certificate request, with the credentials in config. It returns a function that reads the decision about the
// request, and the reason for the decision.
func (p *plane) ask(config *rest.Config, name string, what attempt) func() (certificatesv1.RequestConditionType, string) {
	p.Helper()
	// The API server accepts a token a moment after its Secret is created.
	p.until("the request is accepted", func() bool { return p.request(config, name, what) == nil })
	return func() (certificatesv1.RequestConditionType, string) {
		var r certificatesv1.CertificateSigningRequest
		p.must(p.client.Get(p.ctx, types.NamespacedName{Name: name}, &r))
		for _, c := range r.Status.Conditions {
			return c.Type, c.Message
		}
		return "", ""
	}
}

// wants fails the test unless the decision about a request is want.
func (p *plane) wants(want certificatesv1.RequestConditionType, decided func() (certificatesv1.RequestConditionType, string)) {
	p.Helper()
	p.until("the request is decided", func() bool { kind, _ := decided(); return kind != "" })
	if kind, why := decided(); kind != want {
		p.Errorf("decision %s (%s), want %s", kind, why, want)
	}
}

// asKubelet returns a client configuration with which the API server sees the user as the node's kubelet.
func (p *plane) asKubelet(name string) *rest.Config {
	p.Helper()
	config, err := p.kube.ConfigForUser("system:node:"+name, "system:nodes")
	p.must(err)
	return config
}

func testSharedToken(p *plane) {
	d := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "managed", Namespace: "default", Annotations: map[string]string{"k8c.io/operating-system-profile": "osp-ubuntu"}},
		Spec:       v1alpha1.MachineDeploymentSpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: v1alpha1.MachineTemplateSpec{Metadata: v1alpha1.EmbeddedMetadata{Labels: map[string]string{"a": "b"}}}},
	}
	p.must(p.client.Create(p.ctx, d))
	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "managed-1", Namespace: "default", OwnerReferences: ownedBy(d, "MachineDeployment")},
		Spec:       v1alpha1.MachineSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
	p.must(p.client.Create(p.ctx, set))
	p.seen(d)
	p.seen(set)
	p.must(p.client.Create(p.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-shared", Namespace: "kube-system", Labels: map[string]string{"machinedeployment.k8s.io/name": "default-managed"}},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{"token-id": "shared", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": bootstrap.GroupOSM},
	}))
	p.must(p.client.Create(p.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "osm"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: bootstrap.GroupOSM}},
	}))
	config := p.kube.ConfigForToken("shared.0123456789abcdef")
	p.machine("shared-awaited", "0a1b2c3d-0000-4000-8000-000000000020", set, "MachineSet")
	p.joined(p.machine("shared-joined", "0a1b2c3d-0000-4000-8000-000000000021", set, "MachineSet"))
	p.machine("shared-stranger", "0a1b2c3d-0000-4000-8000-000000000022", nil, "")
	stranger := p.ask(config, "shared-stranger", withToken("", "shared-stranger"))
	for name, want := range map[string]certificatesv1.RequestConditionType{"shared-awaited": certificatesv1.CertificateApproved, "shared-joined": certificatesv1.CertificateDenied} {
		p.wants(want, p.ask(config, name, withToken("", name)))
	}
	if kind, why := stranger(); kind != "" {
		p.Errorf("the request for another deployment's Machine was decided: %s %s", kind, why)
	}
}

func testCollect(p *plane) {
	gone := p.machine("collect-gone", "0a1b2c3d-0000-4000-8000-000000000030", nil, "")
	joined := p.machine("collect-joined", "0a1b2c3d-0000-4000-8000-000000000031", nil, "")
	waiting := p.machine("collect-waiting", "0a1b2c3d-0000-4000-8000-000000000032", nil, "")
	names := map[*v1alpha1.Machine]string{}
	for _, m := range []*v1alpha1.Machine{gone, joined, waiting} {
		token, err := p.source.Tokens.Ensure(p.ctx, m)
		p.must(err)
		names[m] = "bootstrap-token-" + token.ID
	}
	p.must(p.client.Delete(p.ctx, gone))
	p.joined(joined)
	if _, err := p.source.Collect(p.ctx); err != nil {
		p.Fatal(err)
	}
	for m, name := range names {
		err := p.client.Get(p.ctx, types.NamespacedName{Namespace: "kube-system", Name: name}, &corev1.Secret{})
		if left := err == nil; left != (m == waiting) {
			p.Errorf("the token of %s: %v", m.Name, err)
		}
	}
}

func testLabels(p *plane) {
	config, err := p.kube.ConfigForUser("system:node:labelled", "system:nodes")
	p.must(err)
	c, err := client.New(config, client.Options{Scheme: p.client.Scheme()})
	p.must(err)
	for _, key := range []string{
		"team", "example.com/team", "machine-controller/owned-by", "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os",
		"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type", "node.kubernetes.io/anything",
		"kubelet.kubernetes.io/anything", "sub.node.kubernetes.io/anything", "failure-domain.beta.kubernetes.io/zone", "beta.kubernetes.io/os",
		"beta.kubernetes.io/instance-type", "node-role.kubernetes.io/worker", "node-restriction.kubernetes.io/team", "x.node-restriction.kubernetes.io/team",
		"cluster.k8s.io/cluster-name", "example.kubernetes.io/x", "k8s.io/x", "kubernetes.io/x", "notkubernetes.io/x", "topology.k8s.io/x",
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "labelled", Labels: map[string]string{key: "x"}}}
		err := c.Create(p.ctx, n, client.DryRunAll)
		if taken := err == nil; taken != bootstrap.MayRegister(key) {
			p.Errorf("%s: drover registers with it: %v; the API server: %v", key, !taken, err)
		}
	}
}
