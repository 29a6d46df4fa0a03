package csr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/drover-project/drover/machines/bootstrap"
)

const (
	sign     = certificatesv1.UsageDigitalSignature
	encipher = certificatesv1.UsageKeyEncipherment
	auth     = certificatesv1.UsageClientAuth
	serving  = certificatesv1.UsageServerAuth
)

type facts struct {
	r *Request
	m *Machine
	n *Node
}

// first is a request of an awaited server; every case changes one thing.
func first() facts {
	return facts{
		r: &Request{
			Signer: certificatesv1.KubeAPIServerClientKubeletSignerName, User: "system:bootstrap:abcdef",
			Groups: []string{"system:bootstrappers", bootstrap.Group, "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{sign, auth}, CommonName: "system:node:m", Organizations: []string{"system:nodes"},
		},
		m: &Machine{ServerName: "m", Group: bootstrap.Group, Server: "abc"},
	}
}

// renewal is a request of a joined node for another client certificate.
func renewal() facts {
	f := first()
	f.r.User, f.r.Groups = "system:node:m", []string{"system:nodes", "system:authenticated"}
	f.m.Joined, f.n = true, &Node{Server: "abc"}
	return f
}

// server is a request of a joined node for its serving certificate.
func server() facts {
	f := renewal()
	f.r.Signer, f.r.Usages = certificatesv1.KubeletServingSignerName, []certificatesv1.KeyUsage{sign, serving}
	f.r.DNSNames, f.r.IPs = []string{"m"}, []net.IP{net.ParseIP("10.0.0.5")}
	f.m.Addresses = []string{"10.0.0.5", "198.51.100.7", "fd00::1"}
	return f
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name   string
		from   func() facts
		change func(*facts)
		want   Outcome
	}{
		{"MC-58 the first certificate of an awaited server", first, func(*facts) {}, Approve},
		{"with key encipherment", first, func(f *facts) { f.r.Usages = append(f.r.Usages, encipher) }, Approve},
		{"of a server whose Node exists already with its provider ID", first, func(f *facts) { f.n = &Node{Server: "abc"} }, Approve},
		{"not when the Node is another server's", first, func(f *facts) { f.n = &Node{Server: "def"} }, Deny},
		{"not yet when the Node has no provider ID", first, func(f *facts) { f.n = &Node{} }, Wait},
		{"not yet when the server is not recorded and a Node is there", first, func(f *facts) { f.n, f.m.Server = &Node{Server: "abc"}, "" }, Wait},
		{"not for a token of another group", first, func(f *facts) { f.r.Groups = []string{"system:bootstrappers"} }, Ignore},
		{"not for a token of no Machine", first, func(f *facts) { f.m = nil }, Ignore},
		{"not for a Machine that is being deleted", first, func(f *facts) { f.m.Deleting = true }, Deny},
		{"not for a token of a deployment, whose group is another", first, func(f *facts) { f.m.Group = bootstrap.GroupOSM }, Ignore},
		{"MC-58 an awaited server with its deployment's token", first, func(f *facts) { f.m.Group, f.r.Groups = bootstrap.GroupOSM, []string{bootstrap.GroupOSM} }, Approve},
		{"not for a server whose node has joined", first, func(f *facts) { f.m.Joined = true }, Deny},
		{"not while another Machine's server has the same name", first, func(f *facts) { f.m.Ambiguous = true }, Wait},
		{"not in another node's name", first, func(f *facts) { f.r.CommonName = "system:node:other" }, Deny},
		{"not in the name of no node", first, func(f *facts) { f.r.CommonName = "m" }, Deny},
		{"not as an administrator", first, func(f *facts) { f.r.Organizations = []string{"system:masters"} }, Deny},
		{"not with a second organization", first, func(f *facts) { f.r.Organizations = append(f.r.Organizations, "system:masters") }, Deny},
		{"not without an organization", first, func(f *facts) { f.r.Organizations = nil }, Deny},
		{"not with a host name", first, func(f *facts) { f.r.DNSNames = []string{"m"} }, Deny},
		{"not with an address", first, func(f *facts) { f.r.IPs = []net.IP{net.ParseIP("10.0.0.5")} }, Deny},
		{"not with an e-mail address or URI", first, func(f *facts) { f.r.Others = 1 }, Deny},
		{"not to serve with", first, func(f *facts) { f.r.Usages = []certificatesv1.KeyUsage{sign, auth, serving} }, Deny},
		{"not without client auth", first, func(f *facts) { f.r.Usages = []certificatesv1.KeyUsage{sign, encipher} }, Deny},
		{"not without digital signature", first, func(f *facts) { f.r.Usages = []certificatesv1.KeyUsage{auth} }, Deny},
		{"not when it is not signed by its own key", first, func(f *facts) { f.r.Invalid = errors.New("bad signature") }, Deny},
		{"not by another signer", first, func(f *facts) { f.r.Signer = certificatesv1.KubeAPIServerClientSignerName }, Ignore},
		{"not a second time", first, func(f *facts) { f.r.Decided = true }, Ignore},
		{"not for a service account", first, func(f *facts) { f.r.User = "system:serviceaccount:a:b" }, Ignore},
		{"a token does not get a serving certificate", first, func(f *facts) { f.r.Signer = certificatesv1.KubeletServingSignerName }, Ignore},

		{"the renewal of a joined node", renewal, func(*facts) {}, Approve},
		{"not of a node that is no Machine's", renewal, func(f *facts) { f.m = nil }, Ignore},
		{"not of a node whose Machine goes", renewal, func(f *facts) { f.m.Deleting = true }, Ignore},
		{"not yet of a node that is not recorded", renewal, func(f *facts) { f.m.Joined = false }, Wait},
		{"not in another node's name, asked by this one", renewal, func(f *facts) { f.r.CommonName = "system:node:other" }, Deny},
		{"not for this node, asked by another", renewal, func(f *facts) { f.r.User = "system:node:other" }, Ignore},
		{"not from outside the nodes' group", renewal, func(f *facts) { f.r.Groups = []string{"system:authenticated"} }, Ignore},
		{"the renewal of a node whose object is gone for a moment", renewal, func(f *facts) { f.n = nil }, Approve},
		{"not of a node that is another server's by now", renewal, func(f *facts) { f.n.Server = "def" }, Deny},
		{"not a renewal with names", renewal, func(f *facts) { f.r.DNSNames = []string{"m"} }, Deny},

		{"MC-58 the serving certificate for the node's name and address", server, func(*facts) {}, Approve},
		{"for its address alone", server, func(f *facts) { f.r.DNSNames = nil }, Approve},
		{"for its floating IP and its IPv6 address", server, func(f *facts) { f.r.IPs = []net.IP{net.ParseIP("198.51.100.7"), net.ParseIP("fd00:0::1")} }, Approve},
		{"not for an address that the cloud did not give", server, func(f *facts) { f.r.IPs = append(f.r.IPs, net.ParseIP("10.0.0.6")) }, Wait},
		{"not for another's name", server, func(f *facts) { f.r.DNSNames = []string{"kubernetes.default.svc"} }, Wait},
		{"not for nothing", server, func(f *facts) { f.r.DNSNames, f.r.IPs = nil, nil }, Deny},
		{"not before the addresses are known", server, func(f *facts) { f.m.Addresses = nil }, Wait},
		{"not with client auth", server, func(f *facts) { f.r.Usages = append(f.r.Usages, auth) }, Deny},
		{"not without server auth", server, func(f *facts) { f.r.Usages = []certificatesv1.KeyUsage{sign} }, Deny},
		{"not with a URI or e-mail address", server, func(f *facts) { f.r.Others = 1 }, Deny},
		{"not in another node's name", server, func(f *facts) { f.r.CommonName = "system:node:other" }, Deny},
		{"not asked by another node", server, func(f *facts) { f.r.User = "system:node:other" }, Ignore},
		{"not for the node of another server", server, func(f *facts) { f.n.Server = "def" }, Deny},
		{"not asked by no node", server, func(f *facts) { f.r.User = "kubernetes-admin" }, Ignore},
		{"not for a Machine that goes", server, func(f *facts) { f.m.Deleting = true }, Ignore},
		{"not when it is not signed by its own key", server, func(f *facts) { f.r.Invalid = errors.New("bad signature") }, Deny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := tt.from()
			tt.change(&f)
			if got := Decide(f.r, f.m, f.n); got.Outcome != tt.want || got.Reason == "" {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
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

func TestRead(t *testing.T) {
	node := pkix.Name{CommonName: "system:node:m", Organization: []string{"system:nodes"}}
	good := requestFor(t, &x509.CertificateRequest{Subject: node, DNSNames: []string{"m"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.5")}})
	block, _ := pem.Decode(good)
	forged := append([]byte(nil), block.Bytes...)
	forged[len(forged)-1] ^= 1
	tests := []struct {
		name    string
		request []byte
		invalid bool
		others  int
	}{
		{"a kubelet's request", good, false, 0},
		{"a request whose signature is not its key's", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}), true, 0},
		{"no PEM", []byte("hello"), true, 0},
		{"another PEM block", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}), true, 0},
		{"something after the block", append(append([]byte(nil), good...), good...), true, 0},
		{"a URI", requestFor(t, &x509.CertificateRequest{Subject: node, URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}), false, 1},
		{"an e-mail address", requestFor(t, &x509.CertificateRequest{Subject: node, EmailAddresses: []string{"a@b"}}), false, 1},
		{"a second common name", requestFor(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:m", Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:m"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "system:nodes"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:m"}}}}), false, 1},
		{"to be an authority", requestFor(t, &x509.CertificateRequest{Subject: node, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}}), false, 1},
		{"a name of a kind that no node has", requestFor(t, &x509.CertificateRequest{Subject: node, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: []byte{0x30, 0x03, 0x88, 0x01, 0x2a}}}}), false, 1},
		{"more of a subject", requestFor(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:m", Organization: []string{"system:nodes"}, Country: []string{"DE"}}}), false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := read(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: tt.request}})
			if (r.Invalid != nil) != tt.invalid || r.Others != tt.others {
				t.Errorf("invalid %v, others %d", r.Invalid, r.Others)
			}
			if !tt.invalid && r.CommonName != "system:node:m" {
				t.Errorf("common name %q", r.CommonName)
			}
		})
	}
}
