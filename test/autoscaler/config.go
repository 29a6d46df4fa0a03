package autoscaler

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/yaml"
)

// CloudConfig is the content of the file that cluster-autoscaler reads with --cloud-config.
type CloudConfig struct {
	// Address is host:port. The server's certificate must be valid for the host.
	Address string `json:"address"`
	// Key, Cert and CACert are paths. Without Cert the connection is not encrypted.
	Key    string `json:"key,omitempty"`
	Cert   string `json:"cert,omitempty"`
	CACert string `json:"cacert,omitempty"`
	// Timeout is the deadline of each call. The default is 5s.
	Timeout string `json:"grpc_timeout,omitempty"`
}

const defaultTimeout = 5 * time.Second

// ReadCloudConfig reads a cloud-config file.
func ReadCloudConfig(path string) (CloudConfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return CloudConfig{}, fmt.Errorf("reading cloud config: %w", err)
	}
	var c CloudConfig
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		return CloudConfig{}, fmt.Errorf("reading cloud config %s: %w", path, err)
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return CloudConfig{}, fmt.Errorf("reading cloud config %s: address: %w", path, err)
	}
	if _, err := c.timeout(); err != nil {
		return CloudConfig{}, fmt.Errorf("reading cloud config %s: grpc_timeout: %w", path, err)
	}
	return c, nil
}

func (c CloudConfig) timeout() (time.Duration, error) {
	if c.Timeout == "" {
		return defaultTimeout, nil
	}
	return time.ParseDuration(c.Timeout)
}

// Dial returns a connection to the provider at Address. Nothing is sent before the first call.
func (c CloudConfig) Dial() (*grpc.ClientConn, error) {
	secure, err := c.credentials()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+c.Address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", c.Address, err)
	}
	return conn, nil
}

func (c CloudConfig) credentials() (credentials.TransportCredentials, error) {
	if c.Cert == "" {
		return insecure.NewCredentials(), nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}
	ca, err := os.ReadFile(c.CACert)
	if err != nil {
		return nil, fmt.Errorf("reading cacert: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("reading cacert %s: no certificate in it", c.CACert)
	}
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12,
	}), nil
}
