package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/drover-project/drover/machines/openstack/client"
)

// credentialsFrom gives the configured cloud: the one of --clouds-yaml, else that of the OS_* variables. Both are
// optional, since a Machine may bring its own credentials; they never go to another endpoint than their own (MC-12).
func credentialsFrom(o *options, lookup func(string) string) (client.Credentials, error) {
	credentials := client.CredentialsFromEnvironment(lookup)
	bundle := lookup("OS_CACERT")
	switch {
	case o.cloudsYAML != "":
		document, err := os.ReadFile(o.cloudsYAML)
		if err != nil {
			return client.Credentials{}, fmt.Errorf("reading --clouds-yaml: %w", err)
		}
		if credentials, bundle, err = client.CredentialsFromClouds(document, o.cloud); err != nil {
			return client.Credentials{}, fmt.Errorf("--clouds-yaml %s: %w", o.cloudsYAML, err)
		}
	case o.cloud != "":
		return client.Credentials{}, errors.New("--cloud names a cloud of a clouds.yaml: --clouds-yaml is needed with it")
	}
	if o.caBundle != "" {
		bundle = o.caBundle
	}
	if bundle == "" {
		return credentials, nil
	}
	pem, err := os.ReadFile(bundle)
	if err != nil {
		return client.Credentials{}, fmt.Errorf("reading the CA bundle of the cloud: %w", err)
	}
	credentials.CACert = pem
	return credentials, nil
}
