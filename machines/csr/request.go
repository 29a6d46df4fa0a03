package csr

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Request holds what a CertificateSigningRequest requests, and the user that made it.
type Request struct {
	certificatesv1.CertificateSigningRequestSpec
	// CertificateRequest is the content of the request. It is zero while Invalid is not nil.
	x509.CertificateRequest
	// Decided is true when the request is already approved, denied or failed.
	Decided bool
	// Invalid is the error when the request cannot be read, or is not signed by its own key; nil when the request is valid.
	Invalid error
	// Others counts the e-mail addresses and URIs among the alternative names, further parts of the subject, and other
	// extensions.
	Others int
}

// decided lists the conditions of a request that is approved, denied or failed.
var decided = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}

// read returns the parts of the object that the decision depends on.
func read(o *certificatesv1.CertificateSigningRequest) *Request {
	r := &Request{CertificateSigningRequestSpec: o.Spec}
	for _, c := range o.Status.Conditions {
		r.Decided = r.Decided || slices.Contains(decided, c.Type)
	}
	parsed, err := parse(o.Spec.Request)
	if err != nil {
		r.Invalid = err
		return r
	}
	r.CertificateRequest = *parsed
	r.Others = foreignExtensions(parsed) + len(parsed.EmailAddresses) + len(parsed.URIs) + len(parsed.Subject.Names) - len(parsed.Subject.Organization)
	if parsed.Subject.CommonName != "" {
		r.Others--
	}
	return r
}

// subjectAltName is the only extension that a kubelet requests. readNames lists the kinds of alternative names in it that package x509
// reads: e-mail address, DNS name, URI, IP address (RFC 5280, 4.2.1.6).
var (
	subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
	readNames      = []int{1, 2, 6, 7}
)

// foreignExtensions counts all extensions of a request except subjectAltName, and the alternative names in subjectAltName that package x509
// ignores, such as a directory name or a user's principal name. A signer may copy these into the certificate. An extension that cannot be
// read counts as one name.
func foreignExtensions(parsed *x509.CertificateRequest) (n int) {
	for _, e := range parsed.Extensions {
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &names); !e.Id.Equal(subjectAltName) || err != nil || len(rest) > 0 {
			n++
			continue
		}
		for _, name := range names {
			if !slices.Contains(readNames, name.Tag) {
				n++
			}
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

// hosts returns the names and addresses in the request. An IPv4 address in IPv6 form becomes an IPv4 address.
func (r *Request) hosts() []string {
	all := slices.Clone(r.DNSNames)
	for _, ip := range r.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// isName reports whether a host is a name, and not an address.
func isName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

// hasHost reports whether a name or address is among those of a server or Node. An address must have the type of an address there.
func hasHost(all []corev1.NodeAddress, host string) bool {
	return slices.ContainsFunc(all, func(a corev1.NodeAddress) bool {
		switch a.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			have, err := netip.ParseAddr(a.Address)
			return err == nil && have.Unmap().String() == host
		}
		return isName(host) && a.Address == host
	})
}
