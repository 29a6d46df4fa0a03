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

// secured returns the TLS side of the server: its own certificate, read again when the files change, and the authority that
// must have signed a client's, read at each connection, so that either can be rotated without a restart (CA-C07).
func secured(o Options) (credentials.TransportCredentials, *certificate, error) {
	if _, err := authorities(o.ClientCA); err != nil {
		return nil, nil, err
	}
	own, err := newCertificate(o.Cert, o.Key, o.Clock)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: own.get,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		NextProtos:     []string{"h2"},
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := authorities(o.ClientCA)
		if err != nil {
			return nil, err
		}
		current := config.Clone()
		current.GetConfigForClient = nil
		current.ClientCAs = pool
		return current, nil
	}
	return credentials.NewTLS(config), own, nil
}

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

// admit returns nil when the certificate of a call's client has one of the allowed names, as common name, DNS name or URI.
// Without allowed names every client may call whose certificate the authority signed.
//
// Errors: PermissionDenied.
func admit(ctx context.Context, allowed []string) error {
	if len(allowed) == 0 {
		return nil
	}
	c := connectionOf(ctx)
	if c == nil {
		return status.Error(codes.PermissionDenied, "the client has no certificate")
	}
	info, ok := c.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return status.Error(codes.PermissionDenied, "the client has no certificate")
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
