package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/drover-project/drover/machines/openstack/client"
)

// sharedServerGroup is the value of --server-group that puts all servers into one group of the cluster.
const sharedServerGroup = "shared"

// cloudOptions are the flags of the cloud layer.
type cloudOptions struct {
	serverGroup string
	// allowedEndpoints are the allowed Keystone URLs in addition to the configured cloud's. identityOverride allows specs to
	// replace the configured cloud's user, domain and project.
	allowedEndpoints []string
	identityOverride bool
}

func (o *cloudOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.serverGroup, "server-group", o.serverGroup, "server group of servers whose provider spec names none: shared (one of the cluster, with soft-anti-affinity, created when it does not exist); empty: none")
	f.StringSliceVar(&o.allowedEndpoints, "allowed-endpoints", o.allowedEndpoints, "Keystones, beside the configured cloud's, to which drover may send the credentials of a provider spec: host, host:port or the beginning of a URL. An identityEndpoint in a Secret of drover's own namespace or of --secret-namespaces needs no place here. Nothing is sent to any other. An address here is also allowed where drover sends nothing otherwise: loopback, link-local, unspecified, multicast")
	f.BoolVar(&o.identityOverride, "allow-identity-override", o.identityOverride, "let a provider spec without credentials of its own replace user, domain and project of the configured cloud's")
}

func (o *cloudOptions) validate() error {
	if _, err := client.ParseEndpoints(o.allowedEndpoints); err != nil {
		return fmt.Errorf("--allowed-endpoints: %w", err)
	}
	if o.serverGroup != "" && o.serverGroup != sharedServerGroup {
		return fmt.Errorf("--server-group %q: it must be %s or empty; to use another group, name it in the provider spec", o.serverGroup, sharedServerGroup)
	}
	return nil
}
