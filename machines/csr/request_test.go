package csr

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

func TestReadingACertificateRequestReportsWhatANodeMayNotRequest(t *testing.T) {
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
		{"reports nothing for a request such as a kubelet makes", good, false, 0},
		{"reports a request that is not signed by its own key as invalid", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}), true, 0},
		{"reports text that is not PEM as invalid", []byte("hello"), true, 0},
		{"reports a PEM block of another type as invalid", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}), true, 0},
		{"reports data after the PEM block as invalid", append(append([]byte(nil), good...), good...), true, 0},
		{"reports a URI among the alternative names", requestFor(t, &x509.CertificateRequest{Subject: node, URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}), false, 1},
		{"reports an e-mail address among the alternative names", requestFor(t, &x509.CertificateRequest{Subject: node, EmailAddresses: []string{"a@b"}}), false, 1},
		{"reports a second common name in the subject", requestFor(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:m", Organization: []string{"system:nodes"}, ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:m"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "system:nodes"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:node:m"}}}}), false, 1},
		{"reports the extension that marks a certificate authority", requestFor(t, &x509.CertificateRequest{Subject: node, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}}), false, 1},
		{"reports an alternative name that is not a DNS name, an address, a URI or an e-mail address", requestFor(t, &x509.CertificateRequest{Subject: node, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: []byte{0x30, 0x03, 0x88, 0x01, 0x2a}}}}), false, 1},
		{"reports a country in the subject", requestFor(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:m", Organization: []string{"system:nodes"}, Country: []string{"DE"}}}), false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := read(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Request: tt.request}})
			if (r.Invalid != nil) != tt.invalid || r.Others != tt.others {
				t.Errorf("invalid %v, others %d", r.Invalid, r.Others)
			}
			if !tt.invalid && r.Subject.CommonName != "system:node:m" {
				t.Errorf("common name %q", r.Subject.CommonName)
			}
		})
	}
}
