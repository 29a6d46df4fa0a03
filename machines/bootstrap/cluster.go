package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endpoint holds the URL and the CA with which a new node reaches and verifies its API server.
type endpoint struct {
	server string
	ca     []byte
}

// readEndpoint returns the URL and the CA of the API server, each from the ConfigMap kube-public/cluster-info, or else from drover's own
// connection. A URL that the operator has configured takes precedence.
func readEndpoint(ctx context.Context, reader client.Reader, o *Options) (endpoint, error) {
	e, err := clusterInfo(ctx, reader)
	if err != nil {
		return e, err
	}
	own := rest.CopyConfig(o.Target.GetConfig())
	if e.server == "" && !o.InPod {
		e.server = own.Host
	}
	if len(e.ca) == 0 {
		if err := rest.LoadTLSFiles(own); err != nil {
			return e, waiting("the CA of drover's own connection to the API server cannot be read: %v", err)
		}
		e.ca = own.CAData
	}
	if o.APIServer != "" {
		e.server = o.APIServer
	}
	if e.server == "" {
		return e, waiting("ConfigMap kube-public/cluster-info names no address of the API server that a server could reach; create the ConfigMap, or start drover with --bootstrap-api-server")
	}
	if len(e.ca) == 0 {
		return e, waiting("no CA is known for the API server: neither ConfigMap kube-public/cluster-info nor drover's own connection to the API server has one")
	}
	return e, nil
}

// ClusterInfoServer returns the URL of the API server that the ConfigMap kube-public/cluster-info names; empty when the ConfigMap names
// none.
func ClusterInfoServer(ctx context.Context, reader client.Reader) (string, error) {
	e, err := clusterInfo(ctx, reader)
	return e.server, err
}

// clusterInfo reads the ConfigMap that the cluster's installer created for joining nodes. It returns an empty endpoint when there is no
// such ConfigMap.
func clusterInfo(ctx context.Context, reader client.Reader) (endpoint, error) {
	var cm corev1.ConfigMap
	key := types.NamespacedName{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	if err := reader.Get(ctx, key, &cm); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return endpoint{}, nil
		}
		return endpoint{}, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	kubeconfig, err := clientcmd.Load([]byte(cm.Data["kubeconfig"]))
	if err != nil {
		return endpoint{}, waiting("ConfigMap %s, key kubeconfig: %v; correct the ConfigMap, or delete it and start drover with --bootstrap-api-server", key, err)
	}
	names := slices.Sorted(maps.Keys(kubeconfig.Clusters))
	if len(names) == 0 {
		return endpoint{}, nil
	}
	// Installers write one cluster into the kubeconfig of kube-public/cluster-info. If there are several clusters, drover uses the first one
	// by name.
	c := kubeconfig.Clusters[names[0]]
	return endpoint{server: c.Server, ca: c.CertificateAuthorityData}, nil
}

// clusterDNS returns the addresses of the resolver for pods: those of Service kube-system/kube-dns, which installers create, or else those of
// the only Service there with the labels of a DNS server. A [Waiting] error explains why there are none: a node without a resolver would stay
// without it for its life (F-152).
func clusterDNS(ctx context.Context, reader client.Reader) ([]string, error) {
	var list corev1.ServiceList
	if err := reader.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return nil, fmt.Errorf("listing Services in namespace %s to find the resolver for pods: %w", metav1.NamespaceSystem, err)
	}
	const orFlag = "or start drover with --cluster-dns"
	found := map[string][]string{}
	for i := range list.Items {
		s := &list.Items[i]
		addresses := clusterIPs(s)
		switch {
		case s.Name == serviceDNS && len(addresses) > 0:
			return addresses, nil
		case s.Name == serviceDNS:
			return nil, waiting("Service %s/%s has no cluster IP, so new nodes have no resolver for their pods; create it with a cluster IP, %s", metav1.NamespaceSystem, serviceDNS, orFlag)
		case len(addresses) > 0 && servesDNS(s):
			found[s.Name] = addresses
		}
	}
	names := slices.Sorted(maps.Keys(found))
	switch len(names) {
	case 0:
		return nil, waiting("no Service in namespace %s is known as the resolver for pods; create Service %s or one with the label k8s-app=%s, %s", metav1.NamespaceSystem, serviceDNS, serviceDNS, orFlag)
	case 1:
		return found[names[0]], nil
	}
	return nil, waiting("several Services in namespace %s have the labels of the resolver for pods: %s; remove the labels from all but one, %s", metav1.NamespaceSystem, strings.Join(names, ", "), orFlag)
}

// serviceDNS is the name under which installers create the Service of the cluster's DNS server, whatever the server is.
const serviceDNS = "kube-dns"

// clusterIPs returns the addresses of a Service; empty for a headless Service and one of type ExternalName.
func clusterIPs(s *corev1.Service) []string {
	return slices.DeleteFunc(slices.Clone(s.Spec.ClusterIPs), func(address string) bool {
		_, err := netip.ParseAddr(address)
		return err != nil
	})
}

// servesDNS reports whether a Service has the labels of the cluster's DNS server, as installers and CoreDNS's chart set them, and the port
// of DNS. Services of the server's metrics have other ports. NodeLocal DNSCache has a Service with these labels for its own use.
func servesDNS(s *corev1.Service) bool {
	labelled := slices.Contains([]string{"kube-dns", "coredns"}, s.Labels["k8s-app"]) || s.Labels["app.kubernetes.io/name"] == "coredns"
	port := slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 })
	return labelled && port && s.Labels["kubernetes.io/name"] != "KubeDNSUpstream"
}
