package kubelet

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// request describes one certificate to request.
type request struct {
	signer string
	usages []certificatesv1.KeyUsage
	names  []string
	ips    []net.IP
}

var clientRequest = request{
	signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
	usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
}

// servingRequest describes the serving certificate of the kubelet, for the addresses in the Node's status.
func servingRequest(addresses []corev1.NodeAddress) request {
	r := request{
		signer: certificatesv1.KubeletServingSignerName,
		usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}
	seen := map[string]bool{}
	for _, a := range addresses {
		if seen[a.Address] {
			continue
		}
		seen[a.Address] = true
		if ip := net.ParseIP(a.Address); ip != nil {
			r.ips = append(r.ips, ip)
		} else {
			r.names = append(r.names, a.Address)
		}
	}
	return r
}

// obtain creates a key, requests its certificate and waits until the request is approved and signed.
func obtain(ctx context.Context, client kubernetes.Interface, node string, r request) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(crypto.PrivateKey(key)); err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	template := &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames:    r.names,
		IPAddresses: r.ips,
	}
	data, err := cert.MakeCSRFromTemplate(key, template)
	if err != nil {
		return nil, nil, fmt.Errorf("making a signing request: %w", err)
	}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, data, "", r.signer, nil, r.usages, key)
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s for a certificate: %w", r.signer, err)
	}
	certPEM, err = csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for certificate %s of %s: %w", name, r.signer, err)
	}
	return certPEM, keyPEM, nil
}

// certificate is a certificate and its key.
type certificate struct {
	cert, key []byte
	// renew is when the next certificate must be requested.
	renew time.Time
}

// obtained parses an issued certificate.
func (o Options) obtained(certPEM, keyPEM []byte) (*certificate, error) {
	chain, err := cert.ParseCertsPEM(certPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate that was granted: %w", err)
	}
	after := o.Rotate
	if after == 0 {
		after = chain[0].NotAfter.Sub(chain[0].NotBefore) * 8 / 10
	}
	return &certificate{cert: certPEM, key: keyPEM, renew: o.Clock.Now().Add(after)}, nil
}

// join requests the node's own client certificate with the bootstrap token.
func join(ctx context.Context, o Options, s *settings) (*certificate, error) {
	client, err := kubernetes.NewForConfig(s.bootstrap)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", BootstrapFile, err)
	}
	certPEM, keyPEM, err := obtain(ctx, client, s.name, clientRequest)
	if err != nil {
		return nil, err
	}
	return o.obtained(certPEM, keyPEM)
}

// clientFor returns a client that uses the certificate.
func (s *settings) clientFor(c *certificate) (kubernetes.Interface, error) {
	own := rest.AnonymousClientConfig(s.bootstrap)
	own.CertData, own.KeyData = c.cert, c.key
	own.UserAgent = "kubelet/" + s.version + " (simulated)"
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}
