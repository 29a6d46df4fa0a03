package csr

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/cloud"
)

// question holds a request and the facts that it is compared with.
type question struct {
	*Request
	*Facts
}

// first returns a request for the first client certificate of a server that has yet to join.
func first() question {
	return question{
		&Request{
			CertificateSigningRequestSpec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: "system:bootstrap:abcdef",
				Groups: []string{"system:bootstrappers", bootstrap.Group, "system:authenticated"}, Usages: []certificatesv1.KeyUsage{sign, auth},
			},
			CertificateRequest: *nodeRequest("m"),
		},
		&Facts{
			Group: bootstrap.Group,
			Machine: &Machine{Machine: machineNamed("ns", "m"), Recorded: "abc", Server: &cloud.Server{ID: "ABC", Key: "abc", Name: "m", Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"},
				{Type: corev1.NodeExternalIP, Address: "198.51.100.7"}, {Type: corev1.NodeHostName, Address: "10.0.0.77"},
			}}},
		},
	}
}

// renewal returns a joined node's request for another client certificate.
func renewal() question {
	q := first()
	q.Username, q.Groups = "system:node:m", []string{"system:nodes", "system:authenticated"}
	q.Node = &Node{Server: "abc"}
	joined(q.Machine.Machine)
	return q
}

// server returns a joined node's request for its serving certificate.
func server() question {
	q := renewal()
	q.SignerName, q.Usages = certificatesv1.KubeletServingSignerName, []certificatesv1.KeyUsage{sign, serving}
	q.DNSNames, q.IPAddresses = []string{"m"}, []net.IP{net.ParseIP("10.0.0.5")}
	q.Reserved = Reserved{Ranges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}
	return q
}

func TestTheCertificateApproverApprovesOnlyRequestsOfDroversNodes(t *testing.T) {
	tests := []struct {
		name   string
		from   func() question
		change func(*question)
		want   Outcome
	}{
		{"approves the first certificate of a server that has not joined yet (MC-58)", first, func(*question) {}, Approve},
		{"approves a first certificate with the usage key encipherment", first, func(q *question) { q.Usages = append(q.Usages, encipher) }, Approve},
		{"approves the first certificate when the server's Node exists, but the Machine's status does not record the Node yet", first, func(q *question) { q.Node = &Node{Server: "abc"} }, Approve},
		{"denies the first certificate when the Node belongs to another server", first, func(q *question) { q.Node = &Node{Server: "def"} }, Deny},
		{"leaves the first certificate pending while the Node has no provider ID", first, func(q *question) { q.Node = &Node{} }, Wait},
		{"leaves the first certificate pending while the cloud has no server of the Machine (F-2)", first, func(q *question) { q.Machine.Server = nil }, Wait},
		{"leaves the first certificate pending while the inventory is incomplete, although spec.providerID names a server (F-2)", first, func(q *question) { q.Machine.Server, q.Machine.Unknown = nil, "not listed" }, Wait},
		{"leaves the first certificate pending while the Machine's server has another name in the cloud (F-2)", first, func(q *question) { q.Machine.Server.Name = "other" }, Wait},
		{"leaves the first certificate pending while the Machine is paused (F-2)", first, func(q *question) { annotated(v1alpha1.AnnotationPaused)(q.Machine.Machine) }, Wait},
		{"leaves the first certificate pending while a second Machine wants the same node name (F-7)", first, func(q *question) { q.Contested = "two" }, Wait},
		{"leaves the first certificate pending when the bootstrap token has expired", first, func(q *question) { q.TokenExpired = true }, Wait},
		{"ignores a request for a first certificate when the bootstrap token's user is not in drover's group", first, func(q *question) { q.Groups = []string{"system:bootstrappers"} }, Ignore},
		{"ignores a request for a first certificate when the bootstrap token is not for a Machine", first, func(q *question) { q.Machine = nil }, Ignore},
		{"denies the first certificate for a Machine that is being deleted", first, func(q *question) { q.Machine.DeletionTimestamp = &metav1.Time{} }, Deny},
		{"ignores a request with a deployment's bootstrap token when its user is not in operating-system-manager's group", first, func(q *question) { q.Group = bootstrap.GroupOSM }, Ignore},
		{"approves the first certificate that a server requests with its deployment's bootstrap token (MC-58)", first, func(q *question) { q.Group, q.Groups = bootstrap.GroupOSM, []string{bootstrap.GroupOSM} }, Approve},
		{"denies a first certificate for a server whose node has already joined", first, func(q *question) { joined(q.Machine.Machine) }, Deny},
		{"denies a first certificate for another node's name", first, func(q *question) { q.Subject.CommonName = "system:node:other" }, Deny},
		{"denies a first certificate for another node's name even while a second Machine wants the Machine's own node name", first, func(q *question) { q.Subject.CommonName, q.Contested = "system:node:other", "two" }, Deny},
		{"denies a first certificate whose common name does not begin with system:node", first, func(q *question) { q.Subject.CommonName = "m" }, Deny},
		{"denies a first certificate with an administrator's organization", first, func(q *question) { q.Subject.Organization = []string{"system:masters"} }, Deny},
		{"denies a first certificate with a second organization", first, func(q *question) { q.Subject.Organization = append(q.Subject.Organization, "system:masters") }, Deny},
		{"denies a first certificate without an organization", first, func(q *question) { q.Subject.Organization = nil }, Deny},
		{"denies a first certificate with a host name", first, func(q *question) { q.DNSNames = []string{"m"} }, Deny},
		{"denies a first certificate with an IP address", first, func(q *question) { q.IPAddresses = []net.IP{net.ParseIP("10.0.0.5")} }, Deny},
		{"denies a first certificate with an e-mail address or URI", first, func(q *question) { q.Others = 1 }, Deny},
		{"denies a first certificate with the usage server auth", first, func(q *question) { q.Usages = []certificatesv1.KeyUsage{sign, auth, serving} }, Deny},
		{"denies a first certificate without the usage client auth", first, func(q *question) { q.Usages = []certificatesv1.KeyUsage{sign, encipher} }, Deny},
		{"denies a first certificate without the usage digital signature", first, func(q *question) { q.Usages = []certificatesv1.KeyUsage{auth} }, Deny},
		{"denies a first certificate when the request is not signed by its own key", first, func(q *question) { q.Invalid = errors.New("bad signature") }, Deny},
		{"ignores a request to the signer kube-apiserver-client", first, func(q *question) { q.SignerName = certificatesv1.KubeAPIServerClientSignerName }, Ignore},
		{"ignores a request that is already approved or denied", first, func(q *question) { q.Decided = true }, Ignore},
		{"ignores a request that a service account makes", first, func(q *question) { q.Username = "system:serviceaccount:a:b" }, Ignore},
		{"ignores a request for a serving certificate when the user is that of a bootstrap token", first, func(q *question) { q.SignerName = certificatesv1.KubeletServingSignerName }, Ignore},

		{"approves the renewal of a joined node's certificate (MC-58)", renewal, func(*question) {}, Approve},
		{"approves a renewal while the inventory is incomplete, when the Machine's spec.providerID names the server", renewal, func(q *question) { q.Machine.Server, q.Machine.Unknown = nil, "not listed" }, Approve},
		{"approves a renewal while the Node is missing", renewal, func(q *question) { q.Node = nil }, Approve},
		{"leaves a renewal pending when the cloud has no server of the Machine (F-2)", renewal, func(q *question) { q.Machine.Server = nil }, Wait},
		{"leaves a renewal pending while the Machine is paused (F-2)", renewal, func(q *question) { annotated(v1alpha1.AnnotationPaused)(q.Machine.Machine) }, Wait},
		{"leaves a renewal pending while a second Machine wants the same node name (F-7)", renewal, func(q *question) { q.Contested = "two" }, Wait},
		{"ignores a renewal for a node without a Machine", renewal, func(q *question) { q.Machine = nil }, Ignore},
		{"ignores a renewal while the Machine is being deleted", renewal, func(q *question) { q.Machine.DeletionTimestamp = &metav1.Time{} }, Ignore},
		{"leaves a renewal pending until the Machine's status records the Node", renewal, func(q *question) { q.Machine.Status.NodeRef = nil }, Wait},
		{"denies a renewal whose subject is another node than the requesting one", renewal, func(q *question) { q.Subject.CommonName = "system:node:other" }, Deny},
		{"ignores a renewal when the requesting user is another node than the Machine's", renewal, func(q *question) { q.Username = "system:node:other" }, Ignore},
		{"ignores a renewal when the user is not in the group system:nodes", renewal, func(q *question) { q.Groups = []string{"system:authenticated"} }, Ignore},
		{"denies a renewal when the Node belongs to another server", renewal, func(q *question) { q.Node.Server = "def" }, Deny},
		{"denies a renewal with DNS names", renewal, func(q *question) { q.DNSNames = []string{"m"} }, Deny},

		{"approves the serving certificate for the node's name and address (MC-58)", server, func(*question) {}, Approve},
		{"approves a serving certificate that has an IP address and no DNS name", server, func(q *question) { q.DNSNames = nil }, Approve},
		{"approves a serving certificate for a floating IP and an IPv6 address", server, func(q *question) { q.IPAddresses = []net.IP{net.ParseIP("198.51.100.7"), net.ParseIP("fd00:0::1")} }, Approve},
		{"leaves a serving certificate pending while the cloud does not list one of its addresses", server, func(q *question) { q.IPAddresses = append(q.IPAddresses, net.ParseIP("10.0.0.6")) }, Wait},
		{"leaves a serving certificate pending while the cloud lists its address only as a host name (F-2)", server, func(q *question) { q.IPAddresses = []net.IP{net.ParseIP("10.0.0.77")} }, Wait},
		{"denies a serving certificate for a name other than the node's (F-2)", server, func(q *question) { q.DNSNames = []string{"kubernetes.default.svc"} }, Deny},
		{"denies a serving certificate for a Service's address (F-2)", server, func(q *question) { q.IPAddresses = append(q.IPAddresses, net.ParseIP("10.96.0.1")) }, Deny},
		{"denies a serving certificate without a name or address", server, func(q *question) { q.DNSNames, q.IPAddresses = nil, nil }, Deny},
		{"leaves a serving certificate pending until the server's addresses are known", server, func(q *question) { q.Machine.Server.Addresses = nil }, Wait},
		{"leaves a serving certificate pending while the inventory is incomplete (F-2)", server, func(q *question) { q.Machine.Server, q.Machine.Unknown = nil, "not listed" }, Wait},
		{"leaves a serving certificate pending while the Machine is paused (F-2)", server, func(q *question) { annotated(v1alpha1.AnnotationPaused)(q.Machine.Machine) }, Wait},
		{"leaves a serving certificate pending while a second Machine wants the same node name (F-7)", server, func(q *question) { q.Contested = "two" }, Wait},
		{"denies a serving certificate with the usage client auth", server, func(q *question) { q.Usages = append(q.Usages, auth) }, Deny},
		{"denies a serving certificate without the usage server auth", server, func(q *question) { q.Usages = []certificatesv1.KeyUsage{sign} }, Deny},
		{"denies a serving certificate with a URI or e-mail address", server, func(q *question) { q.Others = 1 }, Deny},
		{"denies a serving certificate whose subject is another node than the requesting one", server, func(q *question) { q.Subject.CommonName = "system:node:other" }, Deny},
		{"ignores a request for a serving certificate when the requesting user is another node than the Machine's", server, func(q *question) { q.Username = "system:node:other" }, Ignore},
		{"denies a serving certificate when the Node belongs to another server", server, func(q *question) { q.Node.Server = "def" }, Deny},
		{"ignores a request for a serving certificate when the user is not a node", server, func(q *question) { q.Username = "kubernetes-admin" }, Ignore},
		{"ignores a serving certificate while the Machine is being deleted", server, func(q *question) { q.Machine.DeletionTimestamp = &metav1.Time{} }, Ignore},
		{"denies a serving certificate when the request is not signed by its own key", server, func(q *question) { q.Invalid = errors.New("bad signature") }, Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.from()
			tt.change(&q)
			if got := Decide(q.Request, q.Facts); got.Outcome != tt.want || got.Reason == "" {
				t.Errorf("Decide() = %+v, want %s with a reason", got, tt.want)
			}
		})
	}
}
