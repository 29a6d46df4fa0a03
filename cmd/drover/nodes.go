package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/csr"
)

// nodeOptions are the flags for the setup of new nodes. They have the same names as the corresponding flags of
// machine-controller or operating-system-manager.
type nodeOptions struct {
	apiServer        string
	clusterDNS       []string
	clusterDomain    string
	serviceCIDRs     []string
	providerIDRegion bool

	httpProxy, noProxy string
	registryMirrors    []string
	insecureRegistries []string
	pauseImage         string
	caBundle           string
	containerdVersion  string
	runcVersion        string
	cniPluginsVersion  string
	packages           []string
	featureGates       map[string]string
}

func (o *nodeOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.apiServer, "bootstrap-api-server", o.apiServer, "URL of the API server for joining nodes; empty: kube-public/cluster-info, else the kubeconfig's")
	f.StringSliceVar(&o.clusterDNS, "cluster-dns", o.clusterDNS, "addresses of the cluster's resolver for pods; empty: those of Service kube-dns in kube-system, else of the only Service there with the labels of a DNS server. Without any, Machines wait")
	f.StringVar(&o.clusterDomain, "cluster-domain", o.clusterDomain, "domain of the cluster's Services")
	f.StringSliceVar(&o.serviceCIDRs, "service-cidrs", o.serviceCIDRs, "ranges of Service addresses (10.96.0.0/16), for which no node gets a serving certificate, beside those of the cluster's ServiceCIDR objects. Needed before Kubernetes 1.33, which has none of these")
	f.BoolVar(&o.providerIDRegion, "provider-id-region", o.providerIDRegion, "the provider ID of a node names its region (openstack://<region>/<id>); of use only until there are nodes, whose form is then taken")
	f.StringVar(&o.httpProxy, "node-http-proxy", o.httpProxy, "URL of the proxy for the nodes' downloads, packages and images")
	f.StringVar(&o.noProxy, "node-no-proxy", o.noProxy, "what the nodes reach without the proxy: hosts, domains and networks, with commas. Themselves, the metadata service and the API server are always among it")
	f.StringSliceVar(&o.registryMirrors, "node-registry-mirrors", o.registryMirrors, "mirrors that the nodes ask before a registry: registry=URL, or URL alone for docker.io")
	f.StringSliceVar(&o.insecureRegistries, "node-insecure-registries", o.insecureRegistries, "registries (host:port) whose certificates the nodes do not check")
	f.StringVar(&o.pauseImage, "node-pause-image", o.pauseImage, "image of a pod's sandbox; empty: the container runtime's own")
	f.StringVar(&o.caBundle, "node-ca-bundle", o.caBundle, "certificates that the nodes' systems trust (PEM file, read at start)")
	f.StringVar(&o.containerdVersion, "node-containerd-version", o.containerdVersion, "containerd for images that have none; empty: "+bootstrap.DefaultContainerd)
	f.StringVar(&o.runcVersion, "node-runc-version", o.runcVersion, "runc for images that have none; empty: "+bootstrap.DefaultRunc)
	f.StringVar(&o.cniPluginsVersion, "node-cni-plugins-version", o.cniPluginsVersion, "CNI plugins for images that have none; empty: "+bootstrap.DefaultCNIPlugins)
	f.StringSliceVar(&o.packages, "node-packages", o.packages, "Debian packages that Ubuntu nodes install where they are missing, beside the kubelet: a node joins without waiting for them")
	f.StringToStringVar(&o.featureGates, "node-kubelet-feature-gates", o.featureGates, "feature gates of every kubelet (Gate=true); a Machine's annotations lie over them")
}

// validate checks the flags and the file that they name.
func (o *nodeOptions) validate() error {
	_, err := o.readSite()
	errs := []error{err}
	if o.apiServer != "" {
		errs = append(errs, checkServerURL("--bootstrap-api-server", o.apiServer))
	}
	for _, address := range o.clusterDNS {
		if net.ParseIP(address) == nil {
			errs = append(errs, fmt.Errorf("--cluster-dns %q is not an IP address", address))
		}
	}
	for _, text := range o.serviceCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			errs = append(errs, fmt.Errorf("--service-cidrs %q is not an address range like 10.96.0.0/16: %w", text, err))
		}
	}
	if wrong := validation.IsDNS1123Subdomain(o.clusterDomain); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-domain %q is not a domain: %s", o.clusterDomain, wrong[0]))
	}
	return errors.Join(errs...)
}

// network returns the network settings that the approver of certificates needs. apiServer is the URL that drover
// itself uses.
func (o *nodeOptions) network(apiServer string) csr.Network {
	n := csr.Network{ServiceDomain: o.clusterDomain, APIServers: []string{apiServer, o.apiServer}}
	for _, text := range o.serviceCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			n.ServiceCIDRs = append(n.ServiceCIDRs, p)
		}
	}
	return n
}

// site converts the flags into the settings of user data.
func (o *nodeOptions) site(caBundle []byte) (bootstrap.Site, error) {
	s := bootstrap.Site{
		HTTPProxy: o.httpProxy, NoProxy: o.noProxy, RegistryMirrors: o.registryMirrors, InsecureRegistries: o.insecureRegistries,
		PauseImage: o.pauseImage, CABundle: caBundle, Packages: o.packages, FeatureGates: map[string]bool{},
		ContainerdVersion: o.containerdVersion, RuncVersion: o.runcVersion, CNIPluginsVersion: o.cniPluginsVersion,
	}
	for gate, value := range o.featureGates {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return s, fmt.Errorf("--node-kubelet-feature-gates %s=%s: neither true nor false", gate, value)
		}
		s.FeatureGates[gate] = on
	}
	return s, nil
}

// readSite returns the settings of user data, with the certificates from the file that --node-ca-bundle names.
func (o *nodeOptions) readSite() (bootstrap.Site, error) {
	var bundle []byte
	var unread error
	if o.caBundle != "" {
		bundle, unread = readCertificates("--node-ca-bundle", o.caBundle)
	}
	s, err := o.site(bundle)
	return s, errors.Join(unread, err, s.Check())
}
