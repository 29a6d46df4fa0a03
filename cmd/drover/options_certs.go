package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/autoscale/certs"
)

// certOptions are the flags for gRPC certificates that drover creates itself.
type certOptions struct {
	selfSigned bool
	// secret is the name of drover's own Secret. autoscalers is the NAMESPACE/NAME of the Secret that the autoscaler
	// mounts.
	secret      string
	autoscalers string
	// names are the DNS names and IP addresses under which the autoscaler calls drover. Empty means those of drover's Service.
	names []string
}

func defaultCerts() certOptions {
	return certOptions{secret: "drover-grpc", autoscalers: "kube-system/cluster-autoscaler-drover"}
}

func (o *certOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.selfSigned, "grpc-self-signed", o.selfSigned, "drover makes the certificates of gRPC itself, with an authority of its own, keeps them in two Secrets and renews them; in the place of --grpc-cert, --grpc-key and --grpc-client-ca")
	f.StringVar(&o.secret, "grpc-secret", o.secret, "Secret in drover's namespace for what --grpc-self-signed makes: the authority and the server's certificate, with their keys")
	f.StringVar(&o.autoscalers, "grpc-client-secret", o.autoscalers, "Secret (namespace/name) for the certificate that --grpc-self-signed makes for cluster-autoscaler: tls.crt, tls.key and ca.crt")
	f.StringSliceVar(&o.names, "grpc-server-names", o.names, "DNS names and IP addresses in the server's certificate that --grpc-self-signed makes; empty: those of the Service drover in drover's namespace")
}

// validate returns the errors in the flags.
func (o *certOptions) validate(namespace string, allowedClients []string) error {
	if !o.selfSigned {
		return nil
	}
	own, autoscalers := o.secrets(namespace)
	errs := []error{
		checkSecretName("--grpc-secret", own.Name), checkNamespaces("--grpc-client-secret", autoscalers.Namespace), checkSecretName("--grpc-client-secret", autoscalers.Name),
	}
	if own == autoscalers {
		errs = append(errs, fmt.Errorf("--grpc-client-secret %s is drover's own Secret (--grpc-secret), with the key of the authority: name another one", autoscalers))
	}
	for _, name := range o.names {
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 && net.ParseIP(name) == nil {
			errs = append(errs, fmt.Errorf("--grpc-server-names %q is neither a DNS name nor an IP address: %s", name, wrong[0]))
		}
	}
	if len(allowedClients) > 0 && !slices.Contains(allowedClients, certs.ClientName) {
		errs = append(errs, fmt.Errorf("--grpc-allowed-clients: the certificate that --grpc-self-signed makes has the name %s; add this name", certs.ClientName))
	}
	return errors.Join(errs...)
}

// checkSecretName returns an error when name is not a valid name of a Secret. The error names the flag.
func checkSecretName(flag, name string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("%s %q is not the name of a Secret: %s", flag, name, wrong[0])
	}
	return nil
}

// serverNames returns the DNS names and IP addresses for the server's certificate.
func (o *certOptions) serverNames(namespace, clusterDomain string) []string {
	if len(o.names) > 0 {
		return o.names
	}
	service := "drover." + namespace
	return []string{service + ".svc", service, service + ".svc." + clusterDomain}
}

// secrets returns the two Secrets that hold the certificates.
func (o *certOptions) secrets(namespace string) (own, autoscalers types.NamespacedName) {
	theirs, name, _ := strings.Cut(o.autoscalers, "/")
	return types.NamespacedName{Namespace: namespace, Name: o.secret}, types.NamespacedName{Namespace: theirs, Name: name}
}
