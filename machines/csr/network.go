package csr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// Reserved holds what a serving certificate may never contain, whatever the cloud lists. In addition, loopback, link-local, unspecified
// and multicast addresses, names of localhost, and the names of the Service kubernetes are always reserved.
type Reserved struct {
	// Ranges holds the addresses of Services and of the API server.
	Ranges []netip.Prefix
	// Names holds host names of the API server, in lower case.
	Names []string
	// Domain is the domain of Services, such as cluster.local.
	Domain string
}

// networkLife is how long drover uses the settings that it has read from the cluster.
const networkLife = time.Minute

// clusterReserved holds what was read from the cluster, with the operator's settings, and when.
type clusterReserved struct {
	Reserved
	// served is true when the API server has ServiceCIDR objects.
	served bool
	at     time.Time
}

// reserved returns what no serving certificate of a node may contain. It reads the cluster at most once a minute. Without ServiceCIDR
// objects (before Kubernetes 1.33), it uses the ranges of the Cluster objects in namespace, the namespace of the node's Machine.
func (r *Reconciler) reserved(ctx context.Context, namespace string) (Reserved, error) {
	last := r.cluster.Load()
	if last == nil || r.Clock.Since(last.at) >= networkLife {
		var err error
		if last, err = r.readCluster(ctx); err != nil {
			return Reserved{}, fmt.Errorf("reading the addresses of Services and of the API server: %w", err)
		}
		r.cluster.Store(last)
	}
	out := last.Reserved
	if last.served {
		return out, nil
	}
	var list v1alpha1.ClusterList
	if err := r.Control.GetClient().List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return out, fmt.Errorf("listing Clusters of namespace %s: %w", namespace, err)
	}
	out.Ranges = slices.Clone(out.Ranges)
	for i := range list.Items {
		if err := out.addRanges(list.Items[i].Spec.ClusterNetwork.Services.CIDRBlocks); err != nil {
			return out, fmt.Errorf("reading spec.clusterNetwork.services of Cluster %s/%s: %w", namespace, list.Items[i].Name, err)
		}
	}
	return out, nil
}

// readCluster adds to the operator's settings what the API server has: the ranges of the ServiceCIDR objects, the addresses of its own
// Service and EndpointSlices, and the address in the ConfigMap kube-public/cluster-info.
func (r *Reconciler) readCluster(ctx context.Context) (*clusterReserved, error) {
	var (
		ranges    networkingv1.ServiceCIDRList
		service   corev1.Service
		endpoints discoveryv1.EndpointSliceList
	)
	out, from := &clusterReserved{at: r.Clock.Now()}, r.Target.GetAPIReader()
	out.Ranges, out.Names, out.Domain = slices.Clone(r.Reserved.Ranges), slices.Clone(r.Reserved.Names), r.Reserved.Domain
	unlisted := from.List(ctx, &ranges)
	if meta.IsNoMatchError(unlisted) {
		unlisted = nil
	}
	out.served = len(ranges.Items) > 0
	installed, unknown := bootstrap.ClusterInfoServer(ctx, from)
	err := errors.Join(unlisted, unknown,
		client.IgnoreNotFound(from.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, &service)),
		from.List(ctx, &endpoints, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}))
	for i := range ranges.Items {
		err = errors.Join(err, out.addRanges(ranges.Items[i].Spec.CIDRs))
	}
	out.addHosts(service.Spec.ClusterIPs...)
	out.addHosts(service.Spec.ExternalIPs...)
	for i := range endpoints.Items {
		for _, e := range endpoints.Items[i].Endpoints {
			out.addHosts(e.Addresses...)
		}
	}
	out.AddServers(installed)
	return out, err
}

// addRanges adds address ranges in CIDR form.
func (r *Reserved) addRanges(cidrs []string) error {
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("reading the range %q: %w", text, err)
		}
		r.Ranges = append(r.Ranges, p)
	}
	return nil
}

// AddServers adds the hosts of API servers. Each is given as URL or host:port. An empty text adds nothing.
func (r *Reserved) AddServers(servers ...string) {
	for _, text := range servers {
		if !strings.Contains(text, "://") {
			text = "https://" + text
		}
		if u, err := url.Parse(text); err == nil {
			r.addHosts(u.Hostname())
		}
	}
}

// addHosts adds addresses and host names of the API server. An empty host adds nothing.
func (r *Reserved) addHosts(hosts ...string) {
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			address = address.Unmap().WithZone("")
			r.Ranges = append(r.Ranges, netip.PrefixFrom(address, address.BitLen()))
		} else if host != "" {
			r.Names = append(r.Names, strings.ToLower(strings.TrimSuffix(host, ".")))
		}
	}
}

// refuses describes why no node may have a certificate for an address. It returns "" for any other address.
func (r *Reserved) refuses(ip net.IP) string {
	address, ok := netip.AddrFromSlice(ip)
	address = address.Unmap()
	switch {
	case !ok:
		return "not an IP address"
	case address.IsUnspecified():
		return "the unspecified address"
	case address.IsLoopback():
		return "a loopback address"
	case address.IsMulticast():
		return "a multicast address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	}
	for _, p := range r.Ranges {
		switch {
		case !p.Contains(address):
		case p.IsSingleIP():
			return "an address of the API server"
		default:
			return "in the Service range " + p.String()
		}
	}
	return ""
}

// hasName reports whether a host name is reserved.
func (r *Reserved) hasName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.Contains([]string{"localhost", "kubernetes", "kubernetes.default"}, name) || slices.Contains(r.Names, name) ||
		strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".svc") || r.Domain != "" && strings.HasSuffix(name, ".svc."+strings.ToLower(r.Domain))
}
