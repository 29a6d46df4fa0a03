package autoscale

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

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

// secured returns TLS credentials for the server, with the certificates that from provides.
func secured(from Certificates) credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return from.Server() },
		ClientAuth:     tls.RequireAndVerifyClientCert,
		NextProtos:     []string{"h2"},
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
		return nil, fmt.Errorf("--grpc-client-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--grpc-client-ca %s: the file holds no certificate", path)
	}
	return pool, nil
}

// admit returns nil when the certificate of the call's client has one of the allowed names as its common name, DNS name or URI.
// Without allowed names it accepts every client with a certificate from a trusted authority. On a unix socket it checks no
// names, because the permissions of the socket's file decide who may connect.
//
// Errors: PermissionDenied.
func admit(ctx context.Context, allowed []string) error {
	if len(allowed) == 0 {
		return nil
	}
	c := connectionOf(ctx)
	if c == nil {
		return status.Error(codes.PermissionDenied, "The client has no certificate")
	}
	if c.socket {
		return nil
	}
	info, ok := c.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return status.Error(codes.PermissionDenied, "The client has no certificate")
	}
	leaf := info.State.VerifiedChains[0][0]
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	for _, name := range names {
		if name != "" && slices.Contains(allowed, name) {
			return nil
		}
	}
	return status.Errorf(codes.PermissionDenied, "the client %q is not one of --grpc-allowed-clients", leaf.Subject.CommonName)
}
