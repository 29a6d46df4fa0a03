package kube

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ConfigForToken returns a client configuration that authenticates with a bearer token: a bootstrap
// token or a service account's token.
func (c *Cluster) ConfigForToken(token string) *rest.Config {
	config := c.ConfigForNobody()
	config.BearerToken = token
	return config
}

// ConfigForCert returns a client configuration that authenticates with a client certificate and its
// key, both PEM.
func (c *Cluster) ConfigForCert(cert, key []byte) *rest.Config {
	config := c.ConfigForNobody()
	config.CertData, config.KeyData = cert, key
	return config
}

// ConfigForUser returns a client configuration with a new certificate for any user and groups.
func (c *Cluster) ConfigForUser(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.authority.client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for %s: %w", user, err)
	}
	return c.ConfigForCert(cert, key), nil
}

// ConfigForNobody returns a client configuration without an identity. Like the other configurations of a Cluster, it
// sets no rate limit.
func (c *Cluster) ConfigForNobody() *rest.Config {
	return &rest.Config{Host: c.server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem}}
}

// WriteKubeconfig writes a client configuration to a file that kubectl and drover can read. The configuration must come
// from one of a Cluster's methods.
func WriteKubeconfig(path string, config *rest.Config) error {
	if err := clientcmd.WriteToFile(kubeconfig(config), path); err != nil {
		return fmt.Errorf("writing the kubeconfig %s: %w", path, err)
	}
	return nil
}

func kubeconfig(config *rest.Config) clientcmdapi.Config {
	const name = "drover-test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return *file
}
