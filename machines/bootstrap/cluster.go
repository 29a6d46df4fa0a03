package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"slices"

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

// readEndpoint returns the URL and the CA of the API server: those in the ConfigMap kube-public/cluster-info, or else those of drover's own
// connection. A URL that the operator has configured takes precedence.
func readEndpoint(ctx context.Context, reader client.Reader, o *Options) (endpoint, error) {
	e, err := clusterInfo(ctx, reader)
	if err != nil {
		return e, err
	}
	if e.server == "" || len(e.ca) == 0 {
		own := rest.CopyConfig(o.Target.GetConfig())
		if err := rest.LoadTLSFiles(own); err != nil {
			return e, fmt.Errorf("reading the CA of drover's own connection: %w", err)
		}
		e = endpoint{server: own.Host, ca: own.CAData}
		if o.InPod {
			e.server = ""
		}
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
		return endpoint{}, fmt.Errorf("reading ConfigMap %s, key kubeconfig: %w", key, err)
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

// clusterDNS returns the address of the cluster's DNS service; empty when there is no such service.
func clusterDNS(ctx context.Context, reader client.Reader) ([]string, error) {
	var s corev1.Service
	key := types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "kube-dns"}
	if err := reader.Get(ctx, key, &s); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Service %s: %w", key, err)
	}
	return s.Spec.ClusterIPs, nil
}
