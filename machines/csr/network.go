package csr

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/bootstrap"
)

// Network holds the operator's settings about the cluster's network.
type Network struct {
	// ServiceCIDRs holds ranges of Service addresses in addition to those of the cluster's ServiceCIDR objects.
	ServiceCIDRs []netip.Prefix
	// ServiceDomain is the domain of Services, such as cluster.local.
	ServiceDomain string
	// APIServers holds URLs or host:port of the API server, in addition to the address in the ConfigMap kube-public/cluster-info.
	APIServers []string
}

// networkLife is how long drover uses the settings that it has read from the cluster.
const networkLife = time.Minute

// apiServerService is the name of the API server's Service in the namespace default.
const apiServerService = "kubernetes"

// networkReader reads what no serving certificate may contain, at most once a minute.
type networkReader struct {
	Network
	// target reads the cluster of the Nodes, from the API server itself. control reads the Cluster objects from the cluster with the Machines.
	target, control client.Reader
	clock           clock.PassiveClock
	// last is what was read last; nil means nothing.
	last atomic.Pointer[lastRead]
}

// lastRead holds what was read from the cluster, and when.
type lastRead struct {
	Reserved
	// served is true when the API server has ServiceCIDR objects.
	served bool
	at     time.Time
}

// reserved returns what no serving certificate of a node may contain. Without ServiceCIDR objects (before Kubernetes 1.33), it uses the
// ranges of the Cluster objects in namespace, the namespace of the node's Machine.
func (n *networkReader) reserved(ctx context.Context, namespace string) (Reserved, error) {
	out, served, err := n.current(ctx)
	if err != nil || served {
		return out, err
	}
	var list v1alpha1.ClusterList
	if err := n.control.List(ctx, &list, client.InNamespace(namespace)); err != nil {
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

// current returns the reserved values for the whole cluster, and whether the API server has ServiceCIDR objects.
func (n *networkReader) current(ctx context.Context) (Reserved, bool, error) {
	if last := n.last.Load(); last != nil && n.clock.Since(last.at) < networkLife {
		return last.Reserved, last.served, nil
	}
	out := Reserved{Ranges: slices.Clone(n.ServiceCIDRs), Domain: n.ServiceDomain}
	served, err := n.serviceCIDRs(ctx, &out)
	if err != nil {
		return out, false, err
	}
	if err := n.apiServer(ctx, &out); err != nil {
		return out, false, err
	}
	n.last.Store(&lastRead{out, served, n.clock.Now()})
	return out, served, nil
}

// serviceCIDRs adds the ranges of the ServiceCIDR objects. It returns false when the API server does not have this kind.
func (n *networkReader) serviceCIDRs(ctx context.Context, out *Reserved) (bool, error) {
	var list networkingv1.ServiceCIDRList
	if err := n.target.List(ctx, &list); meta.IsNoMatchError(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for i := range list.Items {
		if err := out.addRanges(list.Items[i].Spec.CIDRs); err != nil {
			return false, fmt.Errorf("reading ServiceCIDR %s: %w", list.Items[i].Name, err)
		}
	}
	return len(list.Items) > 0, nil
}

// apiServer adds the addresses and names of the API server: those of its Service and EndpointSlices, those of the ConfigMap
// cluster-info, and those that the operator has configured.
func (n *networkReader) apiServer(ctx context.Context, out *Reserved) error {
	var s corev1.Service
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: apiServerService}
	if err := n.target.Get(ctx, key, &s); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Service %s: %w", key, err)
	}
	out.addHosts(s.Spec.ClusterIPs...)
	out.addHosts(s.Spec.ExternalIPs...)
	var endpoints discoveryv1.EndpointSliceList
	err := n.target.List(ctx, &endpoints, client.InNamespace(key.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: key.Name})
	if err != nil {
		return fmt.Errorf("listing EndpointSlices of Service %s: %w", key, err)
	}
	for i := range endpoints.Items {
		for _, e := range endpoints.Items[i].Endpoints {
			out.addHosts(e.Addresses...)
		}
	}
	installed, err := bootstrap.ClusterInfoServer(ctx, n.target)
	if err != nil {
		return fmt.Errorf("reading the address of the API server: %w", err)
	}
	for _, text := range append([]string{installed}, n.APIServers...) {
		if !strings.Contains(text, "://") {
			text = "https://" + text
		}
		if u, err := url.Parse(text); err == nil {
			out.addHosts(u.Hostname())
		}
	}
	return nil
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
