package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/machines/bootstrap"
	"github.com/drover-project/drover/machines/csr"
)

// nodeOptions are the flags for the setup of new nodes. They have the same names as the corresponding flags of
// machine-controller or operating-system-manager.
type nodeOptions struct {
	apiServer     string
	clusterDNS    []string
	clusterDomain string
	serviceCIDRs  []string

	httpProxy, noProxy string
	registryMirrors    []string
	insecureRegistries []string
	pauseImage         string
	caBundle           string
	versions           map[string]string
	packages           []string
}

func (o *nodeOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.apiServer, "bootstrap-api-server", o.apiServer, "URL of the API server for joining nodes; empty: kube-public/cluster-info, else the kubeconfig's")
	f.StringSliceVar(&o.clusterDNS, "cluster-dns", o.clusterDNS, "addresses of the cluster's resolver for pods; empty: those of the DNS Service in kube-system. Without any, Machines wait")
	f.StringVar(&o.clusterDomain, "cluster-domain", o.clusterDomain, "domain of the cluster's Services")
	f.StringSliceVar(&o.serviceCIDRs, "service-cidrs", o.serviceCIDRs, "ranges of Service addresses (10.96.0.0/16), which no node's certificate may have. Needed before Kubernetes 1.33 only")
	f.StringVar(&o.httpProxy, "node-http-proxy", o.httpProxy, "URL of the proxy for the nodes' downloads, packages and images")
	f.StringVar(&o.noProxy, "node-no-proxy", o.noProxy, "what the nodes reach without the proxy, beside themselves, the metadata service and the API server: hosts, domains, networks")
	f.StringSliceVar(&o.registryMirrors, "node-registry-mirrors", o.registryMirrors, "mirrors that the nodes ask before a registry: registry=URL, or URL alone for docker.io")
	f.StringSliceVar(&o.insecureRegistries, "node-insecure-registries", o.insecureRegistries, "registries (host:port) whose certificates the nodes do not check")
	f.StringVar(&o.pauseImage, "node-pause-image", o.pauseImage, "image of a pod's sandbox; empty: the container runtime's own")
	f.StringVar(&o.caBundle, "node-ca-bundle", o.caBundle, "certificates that the nodes' systems trust (PEM file, read at start)")
	f.StringToStringVar(&o.versions, "node-versions", o.versions, "programs for images that have none; else containerd="+bootstrap.DefaultContainerd+",runc="+bootstrap.DefaultRunc+",cni-plugins="+bootstrap.DefaultCNIPlugins)
	f.StringSliceVar(&o.packages, "node-packages", o.packages, "Debian packages that Ubuntu nodes install where they are missing; a node joins without waiting for them")
}

// validate checks the flags and the file that they name.
func (o *nodeOptions) validate() error {
	_, err := o.readSite()
	errs := []error{err}
	if o.apiServer != "" {
		errs = append(errs, checkServerURL("--bootstrap-api-server", o.apiServer))
	}
	for _, address := range o.clusterDNS {
		errs = append(errs, unless(net.ParseIP(address) != nil, "--cluster-dns %q is not an IP address", address))
	}
	for _, text := range o.serviceCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			errs = append(errs, fmt.Errorf("--service-cidrs %q is not an address range like 10.96.0.0/16: %w", text, err))
		}
	}
	wrong := validation.IsDNS1123Subdomain(o.clusterDomain)
	return errors.Join(append(errs, unless(len(wrong) == 0, "--cluster-domain %q is not a domain: %s", o.clusterDomain, strings.Join(wrong, "; ")))...)
}

// reserved returns the addresses and names for which the approver of certificates refuses certificates. apiServer is the URL that drover
// itself uses.
func (o *nodeOptions) reserved(apiServer string) csr.Reserved {
	r := csr.Reserved{Domain: o.clusterDomain}
	r.AddServers(apiServer, o.apiServer)
	for _, text := range o.serviceCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			r.Ranges = append(r.Ranges, p)
		}
	}
	return r
}

// readSite returns the settings of user data, with the certificates from the file that --node-ca-bundle names.
func (o *nodeOptions) readSite() (bootstrap.Site, error) {
	s := bootstrap.Site{
		HTTPProxy: o.httpProxy, NoProxy: o.noProxy, RegistryMirrors: o.registryMirrors, InsecureRegistries: o.insecureRegistries,
		PauseImage: o.pauseImage, Packages: o.packages,
	}
	var errs []error
	if o.caBundle != "" {
		var err error
		s.CABundle, err = readCertificates("--node-ca-bundle", o.caBundle)
		errs = append(errs, err)
	}
	programs := map[string]*string{"containerd": &s.ContainerdVersion, "runc": &s.RuncVersion, "cni-plugins": &s.CNIPluginsVersion}
	for name, version := range o.versions {
		if program := programs[name]; program != nil {
			*program = version
			continue
		}
		errs = append(errs, fmt.Errorf("--node-versions %s=%s: there are containerd, runc and cni-plugins", name, version))
	}
	return s, errors.Join(append(errs, s.Check())...)
}
