package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/autoscale"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// grpcOptions are the flags about the service for the autoscaler.
type grpcOptions struct {
	grpcAddress string
	// certDir has the certificates that another program makes. secrets are the two Secrets with the certificates that drover makes:
	// its own, and the autoscaler's as namespace/name. At most one of both is set.
	certDir        string
	secrets        []string
	allowedClients []string
}

func (o *grpcOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.grpcAddress, "grpc-address", o.grpcAddress, "where cluster-autoscaler calls: host:port, unix:///path for an autoscaler in the same pod, or both with a comma")
	f.StringVar(&o.certDir, "grpc-cert-dir", o.certDir, "directory with the server's tls.crt and tls.key and the clients' ca.crt, read again when they change")
	f.StringSliceVar(&o.secrets, "grpc-secrets", o.secrets, "Secrets for certificates that drover makes instead: NAME in its namespace for its own, NAMESPACE/NAME for the autoscaler's")
	f.StringSliceVar(&o.allowedClients, "grpc-allowed-clients", o.allowedClients, "names (SAN or CN) of clients that may call; empty: every client with a certificate of the CA")
}

// validate returns the errors in the flags for certificates that drover makes. autoscale.Options has the rules for the others.
func (o *grpcOptions) validate() error {
	if !o.selfSigned() {
		return nil
	}
	own, autoscalers := o.secretNames("")
	return errors.Join(
		unless(len(o.secrets) == 2, "--grpc-secrets %s: name two Secrets, such as drover-grpc,kube-system/cluster-autoscaler-drover", strings.Join(o.secrets, ",")),
		checkSecretName(own.Name), checkSecretName(autoscalers.Name), checkNamespaces("--grpc-secrets", autoscalers.Namespace),
		unless(len(o.allowedClients) == 0 || slices.Contains(o.allowedClients, autoscale.ClientName),
			"--grpc-allowed-clients: the certificate that drover makes for the autoscaler has the name %s; add this name", autoscale.ClientName),
	)
}

// checkSecretName returns an error when name is not a valid name of a Secret.
func checkSecretName(name string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("--grpc-secrets: %q is not the name of a Secret: %s", name, wrong[0])
	}
	return nil
}

// ownSecrets returns an error when --grpc-secrets names one Secret twice. Every pod with the autoscaler's Secret would have the key of
// the authority.
func (o *options) ownSecrets() error {
	own, autoscalers := o.secretNames(o.namespace)
	return unless(!o.selfSigned() || own != autoscalers, "--grpc-secrets: %s is drover's own Secret, with the key of the authority; name another one for the autoscaler", autoscalers)
}

// selfSigned reports whether drover makes the certificates.
func (o *grpcOptions) selfSigned() bool { return len(o.secrets) > 0 }

// secretNames returns the two Secrets that hold the certificates.
func (o *grpcOptions) secretNames(namespace string) (own, autoscalers types.NamespacedName) {
	both := append(slices.Clone(o.secrets), "", "")
	theirs, name, _ := strings.Cut(both[1], "/")
	return types.NamespacedName{Namespace: namespace, Name: both[0]}, types.NamespacedName{Namespace: theirs, Name: name}
}

// certificateNames returns the names for the server's certificate: those of drover's Service.
func (o *options) certificateNames() []string {
	service := "drover." + o.namespace
	return []string{service + ".svc", service, service + ".svc." + o.nodes.clusterDomain}
}

// serving returns the options of the gRPC server that the flags set.
func (o *options) serving() autoscale.Options {
	out := autoscale.Options{
		Address: o.grpcAddress, AllowedClients: o.allowedClients, SelfSigned: o.selfSigned(),
		Insecure: o.has(grpcInsecure), Reflection: o.has(grpcReflection),
	}
	if o.certDir != "" {
		out.Cert, out.Key, out.ClientCA = filepath.Join(o.certDir, "tls.crt"), filepath.Join(o.certDir, "tls.key"), filepath.Join(o.certDir, "ca.crt")
	}
	if o.groups.gpuLabel != "" {
		out.GPULabel = v1alpha1.LabelGPU
	}
	return out
}
