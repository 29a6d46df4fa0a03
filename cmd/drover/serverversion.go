package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

// oldestServer is the oldest API server that drover works with: the first with ValidatingAdmissionPolicy in its stable
// form and with CEL rules that ratchet.
var oldestServer = version.MustParseGeneric("1.30.0")

// checkServer refuses API servers that are too old.
func checkServer(d discovery.ServerVersionInterface) error {
	info, err := d.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	return checkVersion(info)
}

// checkVersion refuses versions of API servers that are too old, and those that cannot be read.
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
