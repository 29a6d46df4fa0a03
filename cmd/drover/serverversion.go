package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

// oldestServer is the oldest API server version that drover works with. It is the first version with stable
// ValidatingAdmissionPolicies and with ratcheting of CEL rules.
var oldestServer = version.MustParseGeneric("1.30.0")

// checkServer returns an error when the API server is too old.
func checkServer(d discovery.ServerVersionInterface) error {
	info, err := d.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	return checkVersion(info)
}

// checkVersion returns an error when an API server's version is too old or cannot be parsed.
func checkVersion(info *apiversion.Info) error {
	v, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("reading the API server's version %q: %w", info.GitVersion, err)
	}
	if v.LessThan(oldestServer) {
		return fmt.Errorf("the API server is Kubernetes %s; drover needs %s or newer", info.GitVersion, oldestServer)
	}
	return nil
}
