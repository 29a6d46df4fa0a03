package bootstrap

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endpoint is where a new node finds its API server, and how it knows it.
type endpoint struct {
	server string
	ca     []byte
}

// readEndpoint takes address and CA from kube-public/cluster-info, else from drover's own connection. A server that is
// given is put in place of the one found.
func readEndpoint(ctx context.Context, reader client.Reader, config *rest.Config, server string) (endpoint, error) {
	e, err := clusterInfo(ctx, reader)
	if err != nil {
		return e, err
	}
	if e.server == "" || len(e.ca) == 0 {
		own := rest.CopyConfig(config)
		if err := rest.LoadTLSFiles(own); err != nil {
			return e, fmt.Errorf("reading the CA of drover's own connection: %w", err)
		}
		e = endpoint{server: own.Host, ca: own.CAData}
	}
	if server != "" {
		e.server = server
	}
	if len(e.ca) == 0 {
		return e, fmt.Errorf("no CA is known for the API server: neither kube-public/cluster-info nor the kubeconfig holds one")
	}
	return e, nil
}

// clusterInfo reads what the cluster's installer left for joining nodes; empty when it left nothing.
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
	for _, c := range kubeconfig.Clusters {
		return endpoint{server: c.Server, ca: c.CertificateAuthorityData}, nil
	}
	return endpoint{}, nil
}

// clusterDNS is the address of the cluster's DNS service; empty when there is none.
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
