package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLifetime is longer than any test. clockSkew keeps a certificate valid on a machine
// whose clock is set back a little.
const (
	certificateLifetime = 365 * 24 * time.Hour
	clockSkew           = 5 * time.Minute
)

// serviceIP is the API server's own address in the service range.
var serviceIP = net.IPv4(10, 96, 0, 1)

// authority is the cluster's only certificate authority. It signs the API server's certificate and
// those of clients, and the controller-manager signs with it.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := template(pkix.Name{CommonName: "drover-test-ca"})
	if err != nil {
		return nil, err
	}
	cert.IsCA, cert.BasicConstraintsValid = true, true
	cert.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	cert.ExtKeyUsage = nil
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err = x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, pem: certPEM(der)}, err
}

// client creates a certificate that authenticates as a user with groups.
func (a *authority) client(user string, groups ...string) (cert, key []byte, err error) {
	leaf, err := template(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return nil, nil, err
	}
	return a.sign(leaf)
}

func (a *authority) server() (cert, key []byte, err error) {
	leaf, err := template(pkix.Name{CommonName: apiServer})
	if err != nil {
		return nil, nil, err
	}
	leaf.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, serviceIP}
	return a.sign(leaf)
}

func (a *authority) sign(leaf *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyPEM(private)
	return certPEM(der), key, err
}

// writePKI writes the files that the components' flags name: the certificates of the authority, the API server and the
// front proxy, and the key of the service accounts.
func (a *authority) writePKI(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	caKey, err := keyPEM(a.key)
	if err != nil {
		return err
	}
	serverCert, serverKey, err := a.server()
	if err != nil {
		return err
	}
	proxyCert, proxyKey, err := a.client(frontProxy)
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountsKey, err := keyPEM(accounts)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt": a.pem, "ca.key": caKey, "sa.key": accountsKey,
		"apiserver.crt": serverCert, "apiserver.key": serverKey,
		"front-proxy.crt": proxyCert, "front-proxy.key": proxyKey,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func template(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(certificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// keyPEM encodes a key in a form from which the API server can also read the public half.
func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}
