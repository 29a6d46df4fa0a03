package sandbox

import (
	"crypto"
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

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// autoscalerName is the common name of the autoscaler's client certificate.
const autoscalerName = "cluster-autoscaler"

// pki holds the certificate files of the connection between the autoscaler and drover.
type pki struct {
	ca, serverCert, serverKey, clientCert, clientKey string
}

// makePKI creates a CA for the connection between the autoscaler and drover, a certificate for drover on
// loopback, and one for its client.
func makePKI(dir string) (pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return pki{}, fmt.Errorf("making keys: %w", err)
	}
	files := pki{
		ca:         filepath.Join(dir, "ca.crt"),
		serverCert: filepath.Join(dir, "tls.crt"), serverKey: filepath.Join(dir, "tls.key"),
		clientCert: filepath.Join(dir, "client.crt"), clientKey: filepath.Join(dir, "client.key"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pki{}, fmt.Errorf("making keys: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "drover-sandbox"}, key)
	if err != nil {
		return pki{}, fmt.Errorf("making a CA: %w", err)
	}
	if err := os.WriteFile(files.ca, certPEM(ca.Raw), 0o600); err != nil {
		return pki{}, fmt.Errorf("writing the CA: %w", err)
	}
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "drover"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if err := issue(server, ca, key, files.serverCert, files.serverKey); err != nil {
		return pki{}, err
	}
	client := &x509.Certificate{
		Subject: pkix.Name{CommonName: autoscalerName}, DNSNames: []string{autoscalerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return files, issue(client, ca, key, files.clientCert, files.clientKey)
}

// issue signs a certificate that is valid for a day, and writes it and its key.
func issue(template, ca *x509.Certificate, signer crypto.Signer, certPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making keys: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.NotBefore, template.NotAfter = ca.NotBefore, ca.NotBefore.Add(24*time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fmt.Errorf("encoding the key of %s: %w", template.Subject.CommonName, err)
	}
	if err := os.WriteFile(certPath, certPEM(raw), 0o600); err != nil {
		return fmt.Errorf("writing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	if err := os.WriteFile(keyPath, keyPEM, 0o600); err != nil {
		return fmt.Errorf("writing the key of %s: %w", template.Subject.CommonName, err)
	}
	return nil
}

func certPEM(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: raw})
}
