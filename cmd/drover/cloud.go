package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/settings"
)

// cloudOptions are the flags about OpenStack and its credentials.
type cloudOptions struct {
	cloudsYAML, cloud, caBundle string
	// allowedEndpoints are the allowed Keystone URLs in addition to the configured cloud's.
	allowedEndpoints []string
	secretNamespaces []string
}

func (o *cloudOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.cloudsYAML, "clouds-yaml", o.cloudsYAML, "clouds.yaml with the configured cloud, read again every 10 s; empty: the OS_* variables of the environment")
	f.StringVar(&o.cloud, "cloud", o.cloud, "name of the cloud in clouds.yaml")
	f.StringVar(&o.caBundle, "cloud-ca", o.caBundle, "CA bundle for the cloud's endpoints (PEM file); empty: the system's")
	f.StringSliceVar(&o.allowedEndpoints, "allowed-endpoints", o.allowedEndpoints, "further Keystones to which credentials of a provider spec may be sent: host, host:port or the beginning of a URL")
	f.StringSliceVar(&o.secretNamespaces, "secret-namespaces", o.secretNamespaces, "namespaces, beside its own, whose Secrets and ConfigMaps a Machine's provider spec may refer to")
}

func (o *cloudOptions) validate() error {
	_, err := client.ParseEndpoints(o.allowedEndpoints)
	if err != nil {
		err = fmt.Errorf("--allowed-endpoints: %w", err)
	}
	return errors.Join(err, checkNamespaces("--secret-namespaces", o.secretNamespaces...))
}

// credentialsFrom returns the credentials of the configured cloud. It is optional, because a Machine may have its own credentials.
// The credentials are sent only to their own endpoint (MC-12).
func credentialsFrom(o *options, environ []string) (client.Credentials, error) {
	return settings.Read(settings.Source{CloudsYAML: o.cloudsYAML, Cloud: o.cloud, CABundle: o.caBundle, Environ: environ})
}

// rereading returns a function that reads the credentials of the configured cloud and its files again. With OS_* variables the files
// are those that the variables and --cloud-ca name.
func rereading(o *options) func() (client.Credentials, error) {
	return func() (client.Credentials, error) { return credentialsFrom(o, os.Environ()) }
}
