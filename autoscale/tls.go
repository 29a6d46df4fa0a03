package autoscale

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	ctrl "sigs.k8s.io/controller-runtime"
)

// refusalEvery is how often at most the log names a client that is refused.
const refusalEvery = time.Minute

// Certificates provide the server's certificate and the authorities that the server trusts: one of them must have signed a
// client's certificate. The server reads both at each connection, so that both can change without a restart (CA-C07).
type Certificates interface {
	// Ready returns a channel that is closed when the certificates are available.
	Ready() <-chan struct{}
	// Server returns the server's certificate.
	Server() (*tls.Certificate, error)
	// Clients returns the trusted authorities. The server accepts a client's certificate only if one of them has signed it.
	Clients() (*x509.CertPool, error)
}

// secured returns TLS credentials for the server, with the certificates that from provides. allowed are the names of clients.
func secured(from Certificates, allowed []string) credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return from.Server() },
		ClientAuth:     tls.RequireAndVerifyClientCert,
		NextProtos:     []string{"h2"},
		// Session tickets are disabled, so this is called at every handshake, after the chain of the certificate was verified.
		VerifyConnection: (&clients{allowed: allowed, refusals: rate.Sometimes{First: 1, Interval: refusalEvery}}).admit,
		// Session tickets are disabled, because a resumed session would be checked against the authorities that were valid when
		// the session began.
		SessionTicketsDisabled: true,
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := from.Clients()
		if err != nil {
			return nil, err
		}
		current := config.Clone()
		current.GetConfigForClient = nil
		current.ClientCAs = pool
		return current, nil
	}
	return credentials.NewTLS(config)
}

// files holds the certificates from the files that the options name. Another program renews the files.
type files struct {
	*certificate
	clientCA string
}

// newFiles reads the certificate, the key and the authorities from the files in the options. Its errors name the flags that set
// the files.
func newFiles(o Options) (*files, error) {
	if _, err := authorities(o.ClientCA); err != nil {
		return nil, err
	}
	own, err := newCertificate(o.Cert, o.Key, o.Clock)
	if err != nil {
		return nil, err
	}
	return &files{own, o.ClientCA}, nil
}

// Ready returns a closed channel: the files have been read.
func (f *files) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// Server returns the certificate that was read last.
func (f *files) Server() (*tls.Certificate, error) { return f.get(), nil }

// Clients returns the authorities, which it reads from their file.
func (f *files) Clients() (*x509.CertPool, error) { return authorities(f.clientCA) }

func authorities(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--grpc-cert-dir: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--grpc-cert-dir: %s holds no certificate", path)
	}
	return pool, nil
}

// clients decides which clients may call.
type clients struct {
	// allowed are the names of --grpc-allowed-clients.
	allowed []string
	// refusals limits how often the log names a client that is refused.
	refusals rate.Sometimes
}

// admit returns nil when the client's certificate has one of the allowed names as its common name, DNS name or URI. Without
// allowed names it accepts every client with a certificate from a trusted authority. It is called in the handshake, so that no
// other client can send a call.
func (c *clients) admit(state tls.ConnectionState) error {
	if len(c.allowed) == 0 {
		return nil
	}
	leaf := state.VerifiedChains[0][0]
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	for _, name := range names {
		if name != "" && slices.Contains(c.allowed, name) {
			return nil
		}
	}
	err := fmt.Errorf("the client %.100q is not one of --grpc-allowed-clients", leaf.Subject.CommonName)
	c.refusals.Do(func() { ctrl.Log.WithName("grpc").Info("Refused a client", "cause", err.Error()) })
	return err
}
