package csr

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// newTarget returns a cluster with possible targets of an attacker: servers that have yet to join, joined nodes, a Machine that is
// being deleted, the control plane's node and another server's node.
func newTarget(t *testing.T) *fakeCluster {
	t.Helper()
	c := newFakeCluster(t,
		token("aaaaaa", "awaited", "uid-awaited"),
		token("bbbbbb", "neighbour", "uid-neighbour"),
		token("cccccc", "joined", "uid-joined"), node("joined", "openstack:///"+serverID("joined")),
		node("victim", "openstack:///"+serverID("victim")),
		token("dddddd", "deleting", "uid-deleting"), node("deleting", "openstack:///"+serverID("deleting")),
		// The token of a deleted Machine. Another Machine has the same name now.
		token("eeeeee", "awaited", "uid-of-the-former"),
		// The tokens of Machines that were named after existing nodes.
		token("ffffff", "control-plane", "uid-control-plane"), node("control-plane", ""),
		token("gggggg", "stranger", "uid-stranger"), node("stranger", "openstack:///"+serverID("another")),
		// A token in drover's group that belongs to no Machine.
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-zzzzzz"}, Type: "bootstrap.kubernetes.io/token"},
	)
	expired := token("xxxxxx", "awaited", "uid-awaited")
	expired.Data = map[string][]byte{"expiration": []byte("2023-11-14T22:13:20Z")}
	c.create(expired)
	c.machine("awaited", "10.0.0.1")
	c.machine("neighbour", "10.0.0.2")
	c.machine("joined", "10.0.0.5", joined)
	c.machine("victim", "10.0.0.6", joined)
	c.machine("deleting", "10.0.0.7", joined, deleting)
	c.machine("control-plane", "10.0.0.8")
	c.machine("stranger", "10.0.0.9")
	return c
}

// masters changes the organization in a request to the administrators' group system:masters.
func masters(a *attempt) { a.request.Subject.Organization = []string{"system:masters"} }

// The attacker has one bootstrap token, from the metadata service or a console.
func TestAStolenBootstrapTokenGetsOnlyItsServersCertificate(t *testing.T) {
	authority := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}
	for _, tt := range []struct {
		name string
		what attempt
		want string
	}{
		{"gets the certificate of the server for which the token was made (MC-58)", withToken("aaaaaa", "awaited"), approved},
		{"gets its server's certificate with the usage key encipherment (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.usages = append(a.usages, encipher) }), approved},
		{"does not get the certificate of another server that has not joined yet (MC-58)", withToken("aaaaaa", "neighbour"), denied},
		{"does not get the certificate of a joined node (MC-58)", withToken("aaaaaa", "victim"), denied},
		{"does not get the certificate of the control plane's node (MC-58)", withToken("aaaaaa", "control-plane"), denied},
		{"does not get a certificate for a node name that no Machine has (MC-58)", withToken("aaaaaa", "new"), denied},
		{"does not get an administrator's certificate (MC-58)", withToken("aaaaaa", "awaited").with(masters), denied},
		{"does not get a certificate with the organizations system:nodes and system:masters together (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) {
			a.request.Subject.Organization = []string{"system:nodes", "system:masters"}
		}), denied},
		{"does not get a certificate with the organization system:nodes twice (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) {
			a.request.Subject.Organization = []string{"system:nodes", "system:nodes"}
		}), denied},
		{"does not get a certificate in the name of a service account (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) {
			a.request.Subject.CommonName = "system:serviceaccount:kube-system:admin"
		}), denied},
		{"does not get a certificate when a space follows the node's name in the request (MC-58)", withToken("aaaaaa", "awaited "), denied},
		{"does not get a certificate when the node's name is in capital letters in the request (MC-58)", withToken("aaaaaa", "AWAITED"), denied},
		{"does not get a certificate with host names (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.request.DNSNames = []string{"kubernetes.default.svc"} }), denied},
		{"does not get a certificate with a URI (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) {
			a.request.URIs = []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/admin"}}
		}), denied},
		{"does not get a certificate with the usage server auth (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.usages = []certificatesv1.KeyUsage{sign, serving} }), denied},
		{"does not get a certificate with the usage cert sign (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.usages = append(a.usages, certificatesv1.UsageCertSign) }), denied},
		{"does not get a certificate with the usage key encipherment in place of digital signature (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.usages = []certificatesv1.KeyUsage{encipher, auth} }), denied},
		{"does not get a certificate with the usage data encipherment (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.usages = append(a.usages, certificatesv1.UsageDataEncipherment) }), denied},
		{"does not get a certificate that may sign other certificates (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.request.ExtraExtensions = []pkix.Extension{authority} }), denied},
		{"does not get a certificate from the signer of serving certificates (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.signer = certificatesv1.KubeletServingSignerName }), nothing},
		{"does not get a certificate from the signer kube-apiserver-client (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.signer = certificatesv1.KubeAPIServerClientSignerName }), nothing},
		{"does not get a certificate from the signer legacy-unknown (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.signer = "kubernetes.io/legacy-unknown" }), nothing},
		{"does not get a certificate once its server has joined (MC-58)", withToken("cccccc", "joined"), denied},
		{"does not get a certificate while its Machine is being deleted (MC-58)", withToken("dddddd", "deleting"), denied},
		{"does not get a certificate when its Machine was deleted and a new Machine has the same name (MC-58)", withToken("eeeeee", "awaited"), nothing},
		{"does not get a certificate when a Node with its Machine's name has no provider ID (MC-58)", withToken("ffffff", "control-plane"), nothing},
		{"does not get a certificate when a Node with its Machine's name belongs to another server (MC-58)", withToken("gggggg", "stranger"), denied},
		{"does not get a certificate when the token is not for a Machine (MC-58)", withToken("zzzzzz", "awaited"), nothing},
		{"does not get a certificate when the token was deleted (MC-58)", withToken("yyyyyy", "awaited"), nothing},
		{"does not get a certificate when the token has expired (MC-58)", withToken("xxxxxx", "awaited"), nothing},
		{"does not get a certificate when the token's ID is written as a path, with two dots and a slash (MC-58)", withToken("../aaaaaa", "awaited"), nothing},
		{"does not get a certificate when the token's user is not in drover's group (MC-58)", withToken("aaaaaa", "awaited").with(func(a *attempt) { a.groups = []string{"system:bootstrappers"} }), nothing},
	} {
		t.Run("a stolen token "+tt.name, func(t *testing.T) {
			if got := newTarget(t).try(tt.what); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The attacker has a kubelet's certificate, from the node's disk.
func TestACompromisedKubeletGetsOnlyItsOwnCertificates(t *testing.T) {
	for _, tt := range []struct {
		name string
		what attempt
		want string
	}{
		{"gets the renewal of its own certificate (MC-58)", asNode("joined", "joined"), approved},
		{"gets the renewal of its own certificate with the usage key encipherment (MC-58)", asNode("joined", "joined").with(func(a *attempt) { a.usages = append(a.usages, encipher) }), approved},
		{"gets no renewal of another node's certificate (MC-58)", asNode("joined", "victim"), denied},
		{"gets no certificate of a server that has not joined yet (MC-58)", asNode("joined", "awaited"), denied},
		{"gets no certificate of the control plane's node (MC-58)", asNode("joined", "control-plane"), denied},
		{"gets no certificate of an administrator (MC-58)", asNode("joined", "joined").with(masters), denied},
		{"gets no client certificate with DNS names (MC-58)", asNode("joined", "joined").with(func(a *attempt) { a.request.DNSNames = []string{"joined"} }), denied},
		{"gets no client certificate with the usage server auth (MC-58)", asNode("joined", "joined").with(func(a *attempt) { a.usages = append(a.usages, serving) }), denied},
		{"gets no certificate from the signer kube-apiserver-client (MC-58)", asNode("joined", "joined").with(func(a *attempt) { a.signer = certificatesv1.KubeAPIServerClientSignerName }), nothing},
		{"gets no renewal while its Machine is being deleted (MC-58)", asNode("deleting", "deleting"), nothing},
		{"gets no renewal when its Node has no Machine (MC-58)", asNode("elsewhere", "elsewhere"), nothing},
		{"gets no renewal when its Node has another server's provider ID (MC-58)", asNode("stranger", "stranger"), nothing},
		{"gets no certificate for a node whose name is empty (MC-58)", asNode("", ""), nothing},
		{"gets no certificate when its user is not in the group system:nodes (MC-58)", asNode("joined", "joined").with(func(a *attempt) { a.groups = []string{"system:authenticated"} }), nothing},

		{"gets its own serving certificate (MC-58)", toServe("joined", "joined", "joined", "10.0.0.5"), approved},
		{"gets its own serving certificate with the usage key encipherment (MC-58)", toServe("joined", "joined", "10.0.0.5").with(func(a *attempt) { a.usages = append(a.usages, encipher) }), approved},
		{"gets no serving certificate for the API server's name (MC-58)", toServe("joined", "joined", "joined", "kubernetes.default.svc"), denied},
		{"gets no serving certificate for the wildcard name * (MC-58)", toServe("joined", "joined", "*"), denied},
		{"gets no serving certificate for another node's name (MC-58)", toServe("joined", "joined", "victim"), denied},
		{"gets no serving certificate for another node's address (MC-58)", toServe("joined", "joined", "10.0.0.5", "10.0.0.6"), nothing},
		{"gets no serving certificate for an address that no server has (MC-58)", toServe("joined", "joined", "10.0.0.5", "192.0.2.1"), nothing},
		{"gets no serving certificate whose subject is another node (MC-58)", toServe("joined", "victim", "10.0.0.5"), denied},
		{"gets no serving certificate while its Machine is being deleted (MC-58)", toServe("deleting", "deleting", "deleting"), nothing},
		{"gets no serving certificate for an e-mail address (MC-58)", toServe("joined", "joined", "joined").with(func(a *attempt) { a.request.EmailAddresses = []string{"a@b"} }), denied},
		{"gets no serving certificate with the usage client auth (MC-58)", toServe("joined", "joined", "joined").with(func(a *attempt) { a.usages = append(a.usages, auth) }), denied},
	} {
		t.Run("the kubelet "+tt.name, func(t *testing.T) {
			if got := newTarget(t).try(tt.what); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The attacker writes Machines, has the kubelet certificate of one of the nodes of these Machines, and can run a cloud that lists any
// address.
func TestWhichAddressesAndNamesDroverCertifies(t *testing.T) {
	internal := func(address string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address}
	}
	host := func(name string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeHostName, Address: name}
	}
	everything := statusAddresses(host("forged"), internal("10.0.0.5"), host("kubernetes.default.svc"), internal("10.96.0.1"), internal("10.0.0.6"))
	for _, tt := range []struct {
		name string
		// change alters the Machine. cloud holds the addresses that the cloud lists for the Machine's server.
		change []func(*v1alpha1.Machine)
		cloud  string
		what   []string
		want   string
	}{
		{"certifies the name and address that the cloud lists (F-2)", []func(*v1alpha1.Machine){everything}, "10.0.0.5", []string{"forged", "10.0.0.5"}, approved},
		{"does not certify a name that is in the Machine's status.addresses and not in the cloud's list (F-2)", []func(*v1alpha1.Machine){everything}, "10.0.0.5", []string{"kubernetes.default.svc"}, denied},
		{"does not certify an address that is in the Machine's status.addresses and not in the cloud's list (F-2)", []func(*v1alpha1.Machine){everything}, "10.0.0.5", []string{"10.0.0.6"}, nothing},
		{"does not certify a Service's address that is in the Machine's status.addresses (F-2)", []func(*v1alpha1.Machine){everything}, "10.0.0.5", []string{"10.96.0.1"}, denied},
		{"certifies nothing for a Machine with the annotation cluster.k8s.io/paused (F-2)", []func(*v1alpha1.Machine){everything, annotated(v1alpha1.AnnotationPaused)}, "10.0.0.5", []string{"forged", "10.0.0.5"}, nothing},
		{"certifies nothing for a Machine with the annotation cluster.x-k8s.io/paused (F-2)", []func(*v1alpha1.Machine){everything, annotated(v1alpha1.AnnotationPausedCAPI)}, "10.0.0.5", []string{"forged", "10.0.0.5"}, nothing},
		{"does not certify an address in a Service range although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("10.96.7.7"))}, "10.96.7.7", []string{"10.96.7.7"}, denied},
		{"does not certify an address in a second Service range although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("fd00:1::7"))}, "fd00:1::7", []string{"fd00:1::7"}, denied},
		{"does not certify the address of the Service kubernetes although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("172.30.0.1"))}, "172.30.0.1", []string{"172.30.0.1"}, denied},
		{"does not certify an address of the API server although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("192.0.2.10"))}, "192.0.2.10", []string{"192.0.2.10"}, denied},
		{"does not certify a loopback address although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("127.0.0.1"))}, "127.0.0.1", []string{"127.0.0.1"}, denied},
		{"does not certify a link-local address although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("169.254.169.254"))}, "169.254.169.254", []string{"169.254.169.254"}, denied},
		{"does not certify an IPv6 link-local address although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("fe80::1"))}, "fe80::1", []string{"fe80::1"}, denied},
		{"does not certify the address 0.0.0.0 although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("0.0.0.0"))}, "0.0.0.0", []string{"0.0.0.0"}, denied},
		{"does not certify a multicast address although the cloud lists it (F-2)", []func(*v1alpha1.Machine){statusAddresses(internal("224.0.0.1"))}, "224.0.0.1", []string{"224.0.0.1"}, denied},
		{"does not certify the name kubernetes.default.svc, even for a server of that name (F-2)", []func(*v1alpha1.Machine){serverNamed("kubernetes.default.svc")}, "10.0.0.5", []string{"kubernetes.default.svc"}, denied},
		{"does not certify the name localhost, even for a server of that name (F-2)", []func(*v1alpha1.Machine){serverNamed("localhost")}, "10.0.0.5", []string{"localhost"}, denied},
		{"does not certify the API server's name from cluster-info, even for a server of that name (F-2)", []func(*v1alpha1.Machine){serverNamed("api.example.com")}, "10.0.0.5", []string{"api.example.com"}, denied},
	} {
		t.Run("drover "+tt.name, func(t *testing.T) {
			c := newFakeCluster(t,
				&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00:1::/112"}}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"172.30.0.1"}}},
				apiServerSlice("192.0.2.10"), clusterInfo("https://api.example.com:6443"),
			)
			m := c.machine("forged", tt.cloud, append(tt.change, joined)...)
			c.create(node(m.ServerName(), "openstack:///"+serverID("forged")))
			if got := c.try(toServe(m.ServerName(), m.ServerName(), tt.what...)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// apiServerSlice returns an EndpointSlice of the Service kubernetes.
func apiServerSlice(address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}

// clusterInfo returns the ConfigMap that an installer creates for joining nodes.
func clusterInfo(server string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\nclusters: [{name: '', cluster: {server: '" + server + "'}}]\n"},
	}
}

// Without a server that has the Machine's owner tag, a Machine gets no certificate, whatever its spec and status contain.
func TestAMachineGetsCertificatesOnlyForItsOwnServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fakeCluster, *v1alpha1.Machine)
		what   attempt
		want   string
	}{
		{"gets a first certificate when the cloud has the Machine's server (F-2)", func(*fakeCluster, *v1alpha1.Machine) {}, withToken("aaaaaa", "m"), approved},
		{"gets no first certificate when the cloud has no server of the Machine (F-2)", func(c *fakeCluster, m *v1alpha1.Machine) { delete(c.servers.marked, m.UID) }, withToken("aaaaaa", "m"), nothing},
		{"gets no first certificate before the inventory of servers is complete (F-2)", func(c *fakeCluster, m *v1alpha1.Machine) { c.servers.unknown[m.UID] = true }, withToken("aaaaaa", "m"), nothing},
		{"gets no first certificate under a name that the server does not have (F-2)", func(c *fakeCluster, m *v1alpha1.Machine) { c.servers.marked[m.UID].Name = "other" }, withToken("aaaaaa", "m"), nothing},
		{"gets no renewal when the cloud has no server of the Machine (F-2)", func(c *fakeCluster, m *v1alpha1.Machine) { c.join(m); delete(c.servers.marked, m.UID) }, asNode("m", "m"), nothing},
		{"gets the renewal of its certificate even while the inventory of servers is incomplete (MC-58)", func(c *fakeCluster, m *v1alpha1.Machine) { c.join(m); c.servers.unknown[m.UID] = true }, asNode("m", "m"), approved},
		{"gets no serving certificate when the cloud has no server of the Machine (F-2)", func(c *fakeCluster, m *v1alpha1.Machine) { c.join(m); delete(c.servers.marked, m.UID) }, toServe("m", "m", "m"), nothing},
		{"gets no serving certificate before the inventory of servers is complete (F-2)", func(c *fakeCluster, m *v1alpha1.Machine) { c.join(m); c.servers.unknown[m.UID] = true }, toServe("m", "m", "m"), nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFakeCluster(t, token("aaaaaa", "m", "uid-m"))
			tt.change(c, c.machine("m", "10.0.0.5"))
			if got := c.try(tt.what); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestANodeWhoseProviderIDMachineControllerHasMade(t *testing.T) {
	for name, tt := range map[string]struct {
		providerID string
		recorded   types.UID
		want       string
	}{
		"gets its serving certificate when the provider ID is made of its Machine's UID, and the Machine's status names the Node (F-133)": {"kubermatic://openstack/uid-m", "node", approved},
		"waits when the Machine's status names another Node of that name (F-133)":                                                         {"kubermatic://openstack/uid-m", "earlier", nothing},
		"waits when the provider ID is made of another Machine's UID (F-133)":                                                             {"kubermatic://openstack/uid-other", "node", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(t)
			m := c.machine("m", "10.0.0.5")
			n := node("m", tt.providerID)
			n.UID = "node"
			c.create(n)
			m.Status.NodeRef = &corev1.ObjectReference{Name: "m", UID: tt.recorded}
			if err := c.client.Update(c.Context(), m); err != nil {
				t.Fatal(err)
			}
			if got := c.try(toServe("m", "m", "m", "10.0.0.5")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// join creates the Node of a Machine, and records the Node in the Machine's status.
func (c *fakeCluster) join(m *v1alpha1.Machine) {
	c.Helper()
	c.create(node(m.ServerName(), ptr.Deref(m.Spec.ProviderID, "")))
	joined(m)
	if err := c.client.Update(c.Context(), m); err != nil {
		c.Fatal(err)
	}
}
