package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/openstack/provider"
)

const (
	sign     = certificatesv1.UsageDigitalSignature
	encipher = certificatesv1.UsageKeyEncipherment
	auth     = certificatesv1.UsageClientAuth
	serving  = certificatesv1.UsageServerAuth
)

// servers is a cloud inventory in memory.
type servers struct {
	provider.Provider
	mu sync.Mutex
	// marked holds the servers by the UID in their owner tag.
	marked map[types.UID]*cloud.Server
	// unknown is true for Machines whose project has not been listed.
	unknown map[types.UID]bool
}

func newServers() *servers {
	return &servers{marked: map[types.UID]*cloud.Server{}, unknown: map[types.UID]bool{}}
}

func (s *servers) ServerOf(_ context.Context, m *v1alpha1.Machine) (*cloud.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknown[m.UID] {
		return nil, errors.New("the servers of the project have not been listed yet")
	}
	return s.marked[m.UID], nil
}

// add adds a server with the Machine's owner tag.
func (s *servers) add(m *v1alpha1.Machine, id string, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := &cloud.Server{ID: id, Key: s.ServerID(id), Name: m.ServerName(), Owner: m.UID, State: cloud.ServerActive}
	for _, a := range addresses {
		server.Addresses = append(server.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	server.Addresses = append(server.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: server.Name})
	s.marked[m.UID] = server
}

// eventLog holds the recorded Events, as "namespace/name reason", and their notes.
type eventLog struct {
	mu         sync.Mutex
	all, notes []string
}

func (e *eventLog) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o, ok := regarding.(client.Object)
	if ok {
		e.all = append(e.all, fmt.Sprintf("%s/%s %s", o.GetNamespace(), o.GetName(), reason))
		e.notes = append(e.notes, fmt.Sprintf(note, args...))
	}
}

func (e *eventLog) AnnotatedEventf(regarding, related runtime.Object, _ map[string]string, kind, reason, action, note string, args ...any) {
	e.Eventf(regarding, related, kind, reason, action, note, args...)
}

// fakeCluster is a cluster in memory with the approver, an inventory and a fixed clock.
type fakeCluster struct {
	cluster.Cluster
	*testing.T
	client   client.Client
	reader   client.Reader
	events   *eventLog
	servers  *servers
	clock    *clocktesting.FakeClock
	approver *Reconciler
	requests int
}

func (c *fakeCluster) GetClient() client.Client                       { return c.client }
func (c *fakeCluster) GetAPIReader() client.Reader                    { return c.reader }
func (c *fakeCluster) GetEventRecorder(string) recorder.EventRecorder { return c.events }

func newFakeCluster(t *testing.T, objects ...client.Object) *fakeCluster {
	t.Helper()
	scheme := runtime.NewScheme()
	// Creating the client takes time for each kind of its scheme, so the scheme has only the groups that the approver reads.
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, certificatesv1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &fakeCluster{T: t, events: &eventLog{}, servers: newServers(), clock: clocktesting.NewFakeClock(time.Unix(1700000001, 0))}
	c.client = fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.Machine{}, indexNode, func(o client.Object) []string {
		return []string{o.(*v1alpha1.Machine).ServerName()}
	}).WithObjects(objects...).WithStatusSubresource(&certificatesv1.CertificateSigningRequest{}).Build()
	c.reader = c.client
	c.approver = New(Options{Control: c, Target: c, Clock: c.clock, Servers: c.servers})
	return c
}

// create stores an object.
func (c *fakeCluster) create(o client.Object) {
	c.Helper()
	if err := c.client.Create(c.Context(), o); err != nil {
		c.Fatal(err)
	}
}

// machine stores the Machine ns/name with the UID uid-name, and a server with the Machine's owner tag, the ID serverID(name) and the
// given address.
func (c *fakeCluster) machine(name, address string, changes ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	c.Helper()
	m := machineNamed("ns", name, changes...)
	end := m.DeletionTimestamp != nil
	c.create(m)
	if end {
		if err := c.client.Delete(c.Context(), m); err != nil {
			c.Fatal(err)
		}
	}
	c.servers.add(m, serverID(name), address)
	return m
}

// serverID returns the ID of the server with that name in a test.
func serverID(name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", h.Sum64()>>16)
}

func machineNamed(namespace, name string, changes ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}}
	m.Spec.ProviderID = ptr.To("openstack:///" + serverID(name))
	for _, change := range changes {
		change(m)
	}
	return m
}

// joined records the Machine's Node in the Machine's status.
func joined(m *v1alpha1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: m.ServerName()} }

// deleting marks the Machine as being deleted.
func deleting(m *v1alpha1.Machine) {
	m.Finalizers, m.DeletionTimestamp = []string{"hold"}, ptr.To(metav1.Now())
}

// annotated adds an annotation without a value.
func annotated(key string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, "") }
}

// serverNamed sets the name of the Machine's server and Node.
func serverNamed(server string) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.Spec.Metadata.Name = server }
}

// statusAddresses sets the addresses in the Machine's status.
func statusAddresses(addresses ...corev1.NodeAddress) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.Status.Addresses = addresses }
}

func node(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// token returns the Secret of a bootstrap token for the Machine ns/machine.
func token(id, machine, uid string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Labels: map[string]string{v1alpha1.LabelTokenMachine: uid},
			Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: "ns/" + machine},
		},
		Type: "bootstrap.kubernetes.io/token",
	}
}

// attempt is a certificate request and its user.
type attempt struct {
	user    string
	groups  []string
	signer  string
	usages  []certificatesv1.KeyUsage
	request *x509.CertificateRequest
}

func nodeRequest(node string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
}

// withToken returns a request for a client certificate in the name of node. The user who makes the request has the bootstrap token id.
func withToken(id, node string) attempt {
	return attempt{
		user: "system:bootstrap:" + id, groups: []string{"system:bootstrappers", bootstrap.Group, "system:authenticated"},
		signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usages: []certificatesv1.KeyUsage{sign, auth}, request: nodeRequest(node),
	}
}

// asNode returns a request for a client certificate in the name of node. The user who makes the request is the node own.
func asNode(own, node string) attempt {
	a := withToken("", node)
	a.user, a.groups = "system:node:"+own, []string{"system:nodes", "system:authenticated"}
	return a
}

// toServe returns a request for a serving certificate in the name of node, for the names and addresses in hosts. The user who makes
// the request is the node own.
func toServe(own, node string, hosts ...string) attempt {
	a := asNode(own, node)
	a.signer, a.usages = certificatesv1.KubeletServingSignerName, []certificatesv1.KeyUsage{sign, serving}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			a.request.IPAddresses = append(a.request.IPAddresses, ip)
		} else {
			a.request.DNSNames = append(a.request.DNSNames, host)
		}
	}
	return a
}

func (a attempt) with(change func(*attempt)) attempt {
	change(&a)
	return a
}

// The possible results of a certificate request.
const (
	approved = string(certificatesv1.CertificateApproved)
	denied   = string(certificatesv1.CertificateDenied)
	nothing  = ""
)

// try makes the request and returns what the approver wrote: approved, denied or nothing.
func (c *fakeCluster) try(a attempt) string {
	c.Helper()
	c.requests++
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("request-%d", c.requests), CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Username: a.user, Groups: a.groups, SignerName: a.signer, Usages: a.usages, Request: requestFor(c.T, a.request),
		},
	}
	c.create(o)
	return c.decided(o)
}

// decided runs the approver once for the request and returns what it wrote.
func (c *fakeCluster) decided(o *certificatesv1.CertificateSigningRequest) string {
	c.Helper()
	if _, err := c.approver.Reconcile(c.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}); err != nil {
		c.Fatal(err)
	}
	if err := c.client.Get(c.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		c.Fatal(err)
	}
	for _, condition := range o.Status.Conditions {
		return string(condition.Type)
	}
	return nothing
}

func requestFor(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
