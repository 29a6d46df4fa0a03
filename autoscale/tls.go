package autoscale

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	ctrl "sigs.k8s.io/controller-runtime"
)

// refusalEvery is how often at most the log names a client that is refused.
const refusalEvery = time.Minute

// certificates provide the server's certificate and the authorities that the server trusts: one of them must have signed a
// client's certificate. The server reads both at each connection, so that both can change without a restart (CA-C07).
type certificates interface {
	// Server returns the server's certificate.
	Server() (*tls.Certificate, error)
	// Clients returns the trusted authorities. The server accepts a client's certificate only if one of them has signed it.
	Clients() (*x509.CertPool, error)
}

// secured returns TLS credentials for the server, with the certificates that from provides. allowed are the names of clients.
func secured(from certificates, allowed []string) credentials.TransportCredentials {
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
