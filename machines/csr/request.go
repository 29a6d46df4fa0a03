package csr

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// read returns the parts of the object that the decision depends on.
func read(o *certificatesv1.CertificateSigningRequest) *Request {
	r := &Request{Signer: o.Spec.SignerName, User: o.Spec.Username, Groups: o.Spec.Groups, Usages: o.Spec.Usages}
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			r.Decided = true
		}
	}
	parsed, err := parse(o.Spec.Request)
	if err != nil {
		r.Invalid = err
		return r
	}
	r.CommonName, r.Organizations = parsed.Subject.CommonName, parsed.Subject.Organization
	r.DNSNames, r.IPs = parsed.DNSNames, parsed.IPAddresses
	r.Others = foreignExtensions(parsed) + len(parsed.EmailAddresses) + len(parsed.URIs) + len(parsed.Subject.Names) - len(parsed.Subject.Organization)
	if parsed.Subject.CommonName != "" {
		r.Others--
	}
	return r
}

// subjectAltName is the only extension that a kubelet requests.
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// foreignExtensions counts all extensions of a request except subjectAltName, and the alternative names in subjectAltName that
// package x509 ignores. A signer may copy these into the certificate.
func foreignExtensions(parsed *x509.CertificateRequest) (n int) {
	for i := range parsed.Extensions {
		if e := &parsed.Extensions[i]; e.Id.Equal(subjectAltName) {
			n += foreignNames(e.Value)
		} else {
			n++
		}
	}
	return n
}

// readNames lists the kinds of alternative names that x509 reads: e-mail address, DNS name, URI, IP address (RFC 5280, 4.2.1.6).
var readNames = []int{1, 2, 6, 7}

// foreignNames counts the alternative names whose kind is not in readNames, such as a directory name or a user's principal name. An
// extension that cannot be read counts as one name.
func foreignNames(extension []byte) (n int) {
	var names []asn1.RawValue
	if rest, err := asn1.Unmarshal(extension, &names); err != nil || len(rest) > 0 {
		return 1
	}
	for i := range names {
		if !slices.Contains(readNames, names[i].Tag) {
			n++
		}
	}
	return n
}

// parse reads exactly one request, and checks that it is signed by its own key.
func parse(text []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil || block.Type != "CERTIFICATE REQUEST":
		return nil, errors.New("it is not a PEM block of the type CERTIFICATE REQUEST")
	case strings.TrimSpace(string(rest)) != "":
		return nil, errors.New("the request has data after the PEM block")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the request: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("checking the request's signature: %w", err)
	}
	return parsed, nil
}
