package main

import (
	"os"

	"github.com/drover-project/drover/machines/openstack/client"
	"github.com/drover-project/drover/machines/openstack/settings"
)

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
