package csr

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// town is a cluster in memory with what a thief might be after: awaited servers, joined nodes, one that goes, the control
// plane's own node and that of somebody else.
type town struct {
	cluster.Cluster
	client client.Client
}

func (t *town) GetClient() client.Client    { return t.client }
func (t *town) GetAPIReader() client.Reader { return t.client }

func newTown(t *testing.T) *town {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	machine := func(name string, change func(*v1alpha1.Machine)) client.Object {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
		m.Spec.ProviderID = ptr.To("openstack:///server-" + name)
		m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
		change(m)
		return m
	}
	token := func(id, machine, uid string) client.Object {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Labels: map[string]string{v1alpha1.LabelTokenMachine: uid},
				Annotations: map[string]string{v1alpha1.AnnotationNodeMachine: "ns/" + machine},
			},
			Type: "bootstrap.kubernetes.io/token",
		}
	}
	node := func(name, providerID string) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
	awaited := func(*v1alpha1.Machine) {}
	joined := func(m *v1alpha1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: m.Name} }
	c := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.Machine{}, indexNode, func(o client.Object) []string {
		return []string{o.(*v1alpha1.Machine).ServerName()}
	}).WithObjects(
		machine("awaited", awaited), token("aaaaaa", "awaited", "uid-awaited"),
		machine("neighbour", awaited), token("bbbbbb", "neighbour", "uid-neighbour"),
		machine("joined", joined), token("cccccc", "joined", "uid-joined"), node("joined", "openstack:///server-joined"),
		machine("victim", joined), node("victim", "openstack:///server-victim"),
		machine("going", func(m *v1alpha1.Machine) {
			joined(m)
			m.Finalizers, m.DeletionTimestamp = []string{"hold"}, ptr.To(metav1.Now())
		}), token("dddddd", "going", "uid-going"), node("going", "openstack:///server-going"),
		// One that died, and one of the same name that came after it.
		token("eeeeee", "awaited", "uid-of-the-one-before"),
		// Machines that somebody named after nodes that are none of theirs.
		machine("control-plane", awaited), token("ffffff", "control-plane", "uid-control-plane"), node("control-plane", ""),
		machine("stranger", awaited), token("gggggg", "stranger", "uid-stranger"), node("stranger", "openstack:///another"),
		machine("twin", awaited), token("hhhhhh", "twin", "uid-twin"),
		machine("twin-2", func(m *v1alpha1.Machine) { m.Spec.Metadata.Name = "twin" }), token("iiiiii", "twin-2", "uid-twin-2"),
		// A token of somebody else's, in drover's group.
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-zzzzzz"}, Type: "bootstrap.kubernetes.io/token"},
	).WithStatusSubresource(&certificatesv1.CertificateSigningRequest{}).Build()
	return &town{client: c}
}

// theft is a request as a thief would make it; the zero value asks, with the token of an awaited server, for what that
// server may have.
type theft struct {
	user    string
	groups  []string
	signer  string
	usages  []certificatesv1.KeyUsage
	request *x509.CertificateRequest
}

func named(node string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
}

// withToken is a request by who holds a token, in the name of a node.
func withToken(id, node string) theft {
	return theft{
		user: "system:bootstrap:" + id, groups: []string{"system:bootstrappers", bootstrap.Group, "system:authenticated"},
		signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usages: []certificatesv1.KeyUsage{sign, auth}, request: named(node),
	}
}

// asNode is a request by who holds a node's certificate, in the name of a node.
func asNode(own, node string) theft {
	t := withToken("", node)
	t.user, t.groups = "system:node:"+own, []string{"system:nodes", "system:authenticated"}
	return t
}

// toServe is a request for a serving certificate for these addresses.
func toServe(own, node string, addresses ...string) theft {
	t := asNode(own, node)
	t.signer, t.usages = certificatesv1.KubeletServingSignerName, []certificatesv1.KeyUsage{sign, serving}
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			t.request.IPAddresses = append(t.request.IPAddresses, ip)
		} else {
			t.request.DNSNames = append(t.request.DNSNames, a)
		}
	}
	return t
}

func (t theft) with(change func(*theft)) theft {
	change(&t)
	return t
}

// try makes the request and gives what the approver wrote: Approved, Denied, or nothing.
func (t *town) try(test *testing.T, what theft) string {
	test.Helper()
	o := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "theft", CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Username: what.user, Groups: what.groups, SignerName: what.signer, Usages: what.usages, Request: requestFor(test, what.request),
		},
	}
	if err := t.client.Create(test.Context(), o); err != nil {
		test.Fatal(err)
	}
	r := New(Options{Control: t, Target: t, Clock: clocktesting.NewFakePassiveClock(time.Unix(1700000001, 0))})
	if _, err := r.Reconcile(test.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)}); err != nil {
		test.Fatal(err)
	}
	if err := t.client.Get(test.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		test.Fatal(err)
	}
	for _, c := range o.Status.Conditions {
		return string(c.Type)
	}
	return ""
}

const (
	approved = string(certificatesv1.CertificateApproved)
	denied   = string(certificatesv1.CertificateDenied)
	nothing  = ""
)

// Whoever holds one token or one node's certificate gets what that one server may have, and nothing else.
func TestWhatAThiefGets(t *testing.T) {
	masters := func(x *theft) { x.request.Subject.Organization = []string{"system:masters"} }
	for _, tt := range []struct {
		name string
		what theft
		want string
	}{
		// One bootstrap token, taken from the metadata service or a console.
		{"a token: the certificate of the very server that is awaited, which is what it is for", withToken("aaaaaa", "awaited"), approved},
		{"a token: that of another server that is awaited", withToken("aaaaaa", "neighbour"), denied},
		{"a token: that of a node that has joined", withToken("aaaaaa", "victim"), denied},
		{"a token: that of the control plane's node", withToken("aaaaaa", "control-plane"), denied},
		{"a token: that of a node that nobody knows", withToken("aaaaaa", "new"), denied},
		{"a token: an administrator's", withToken("aaaaaa", "awaited").with(masters), denied},
		{"a token: an administrator's beside the node's", withToken("aaaaaa", "awaited").with(func(x *theft) {
			x.request.Subject.Organization = []string{"system:nodes", "system:masters"}
		}), denied},
		{"a token: the group twice", withToken("aaaaaa", "awaited").with(func(x *theft) {
			x.request.Subject.Organization = []string{"system:nodes", "system:nodes"}
		}), denied},
		{"a token: the name of a service account", withToken("aaaaaa", "awaited").with(func(x *theft) {
			x.request.Subject.CommonName = "system:serviceaccount:kube-system:admin"
		}), denied},
		{"a token: the node's name with a blank", withToken("aaaaaa", "awaited "), denied},
		{"a token: the node's name in capitals", withToken("aaaaaa", "AWAITED"), denied},
		{"a token: names beside the node's", withToken("aaaaaa", "awaited").with(func(x *theft) { x.request.DNSNames = []string{"kubernetes.default.svc"} }), denied},
		{"a token: an identity of a service mesh", withToken("aaaaaa", "awaited").with(func(x *theft) {
			x.request.URIs = []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/admin"}}
		}), denied},
		{"a token: a certificate to serve with", withToken("aaaaaa", "awaited").with(func(x *theft) { x.usages = []certificatesv1.KeyUsage{sign, serving} }), denied},
		{"a token: one to sign others with", withToken("aaaaaa", "awaited").with(func(x *theft) { x.usages = append(x.usages, certificatesv1.UsageCertSign) }), denied},
		{"a token: an authority's", withToken("aaaaaa", "awaited").with(func(x *theft) {
			x.request.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		}), denied},
		{"a token: from the kubelets' serving signer", withToken("aaaaaa", "awaited").with(func(x *theft) { x.signer = certificatesv1.KubeletServingSignerName }), nothing},
		{"a token: from the signer of all clients", withToken("aaaaaa", "awaited").with(func(x *theft) { x.signer = certificatesv1.KubeAPIServerClientSignerName }), nothing},
		{"a token: from the old signer of anything", withToken("aaaaaa", "awaited").with(func(x *theft) { x.signer = "kubernetes.io/legacy-unknown" }), nothing},
		{"a token of a server that has joined: its node's certificate once more", withToken("cccccc", "joined"), denied},
		{"a token of a Machine that goes", withToken("dddddd", "going"), denied},
		{"a token of a Machine that died, for the one that has its name now", withToken("eeeeee", "awaited"), nothing},
		{"a token of a Machine that was named after a node without a provider ID", withToken("ffffff", "control-plane"), nothing},
		{"a token of a Machine that was named after another server's node", withToken("gggggg", "stranger"), denied},
		{"a token of one of two Machines whose servers have one name", withToken("hhhhhh", "twin"), nothing},
		{"a token of the other one", withToken("iiiiii", "twin"), nothing},
		{"a token that is no Machine's", withToken("zzzzzz", "awaited"), nothing},
		{"a token that is not there any more", withToken("yyyyyy", "awaited"), nothing},
		{"a token whose id is a path", withToken("../aaaaaa", "awaited"), nothing},
		{"a token in another group", withToken("aaaaaa", "awaited").with(func(x *theft) { x.groups = []string{"system:bootstrappers"} }), nothing},

		// One node's certificate, taken from its disk.
		{"a node: its own renewal, which is what it is for", asNode("joined", "joined"), approved},
		{"a node: another node's certificate", asNode("joined", "victim"), denied},
		{"a node: that of a server that is awaited", asNode("joined", "awaited"), denied},
		{"a node: that of the control plane's node", asNode("joined", "control-plane"), denied},
		{"a node: an administrator's", asNode("joined", "joined").with(masters), denied},
		{"a node: one to serve with beside its own", asNode("joined", "joined").with(func(x *theft) { x.usages = append(x.usages, serving) }), denied},
		{"a node: from the signer of all clients", asNode("joined", "joined").with(func(x *theft) { x.signer = certificatesv1.KubeAPIServerClientSignerName }), nothing},
		{"a node whose Machine goes: another year", asNode("going", "going"), nothing},
		{"a node of no Machine: its renewal", asNode("elsewhere", "elsewhere"), nothing},
		{"a node of that name, of another server: the renewal of the one that is awaited", asNode("stranger", "stranger"), nothing},
		{"no node at all, by a name that begins like one", asNode("", ""), nothing},
		{"who is outside the nodes' group", asNode("joined", "joined").with(func(x *theft) { x.groups = []string{"system:authenticated"} }), nothing},

		{"a node: a serving certificate for itself, which is what it is for", toServe("joined", "joined", "joined", "10.0.0.5"), approved},
		{"a node: for the API server's name", toServe("joined", "joined", "joined", "kubernetes.default.svc"), nothing},
		{"a node: for any name", toServe("joined", "joined", "*"), nothing},
		{"a node: for another node's name", toServe("joined", "joined", "victim"), nothing},
		{"a node: for the service network's first address", toServe("joined", "joined", "10.0.0.5", "10.96.0.1"), nothing},
		{"a node: for this machine", toServe("joined", "joined", "127.0.0.1"), nothing},
		{"a node: in another node's name", toServe("joined", "victim", "10.0.0.5"), denied},
		{"a node: for a Machine that goes", toServe("going", "going", "going"), nothing},
		{"a node: for a mail address", toServe("joined", "joined", "joined").with(func(x *theft) { x.request.EmailAddresses = []string{"a@b"} }), denied},
		{"a node: to sign in with, too", toServe("joined", "joined", "joined").with(func(x *theft) { x.usages = append(x.usages, auth) }), denied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := newTown(t).try(t, tt.what); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
