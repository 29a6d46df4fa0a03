package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/drover-project/drover/machines/openstack/client"
)

// credentialsFrom returns the credentials of the configured cloud, from --clouds-yaml or else from the OS_* variables. Both are
// optional, because a Machine may have its own credentials. The credentials are sent only to their own endpoint (MC-12). Errors
// name the wrong flag or variable.
func credentialsFrom(o *options, lookup func(string) string) (client.Credentials, error) {
	credentials := client.CredentialsFromEnvironment(lookup)
	source, bundle := "OS_CACERT", lookup("OS_CACERT")
	switch {
	case o.cloudsYAML != "":
		document, err := os.ReadFile(o.cloudsYAML)
		if err != nil {
			return client.Credentials{}, fmt.Errorf("reading --clouds-yaml: %w", err)
		}
		if credentials, bundle, err = client.CredentialsFromClouds(document, o.cloud); err != nil {
			return client.Credentials{}, fmt.Errorf("--clouds-yaml %s: %w", o.cloudsYAML, err)
		}
		source = "cacert of --clouds-yaml"
	case o.cloud != "":
		return client.Credentials{}, errors.New("--cloud names a cloud of a clouds.yaml: --clouds-yaml is needed with it")
	}
	if o.caBundle != "" {
		source, bundle = "--cloud-ca", o.caBundle
	}
	if bundle == "" {
		return credentials, nil
	}
	pem, err := readCertificates(source, bundle)
	if err != nil {
		return client.Credentials{}, err
	}
	credentials.CACert = pem
	return credentials, nil
}

// userless reports whether clouds.yaml configures a cloud without a user: then only Machines with credentials of their own get
// servers.
func userless(o *options, credentials client.Credentials) bool {
	return o.cloudsYAML != "" && credentials.Method() == client.ByNothing
}

// rereading returns a function that reads the credentials of the configured cloud and its CA bundle again. It returns nil when the
// credentials come from the environment, which does not change.
func rereading(o *options) func() (client.Credentials, error) {
	if o.cloudsYAML == "" {
		return nil
	}
	return func() (client.Credentials, error) { return credentialsFrom(o, os.Getenv) }
}
