package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/version"
)

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no --kubeconfig, and not in a pod: %w", err)
		}
		return tuned(config), nil
	}
	return readKubeconfig("--kubeconfig", kubeconfig)
}

// readKubeconfig returns a client configuration from a kubeconfig. Its errors name the flag.
func readKubeconfig(flag, path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", flag, err)
	}
	return tuned(config), nil
}

func tuned(config *rest.Config) *rest.Config {
	// There is no client-side rate limit: the API server protects itself by priority and fairness, and a limit would only
	// make a thousand new Machines wait for each other. The number of workers bounds the number of concurrent requests.
	config.QPS = -1
	config.UserAgent = version.UserAgent()
	// Warnings of the API server are ignored, because it warns at every write that the names of drover's finalizers have
	// no domain. The names are machine-controller's, so that each program can finish what the other one has begun.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config
}

// prepare checks that drover supports the control cluster, and returns the cluster id.
func prepare(ctx context.Context, config *rest.Config, o *options) (string, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("making a discovery client: %w", err)
	}
	if err := checkServer(disco); err != nil {
		return "", err
	}
	group := v1alpha1.GroupVersion.String()
	if _, err := disco.ServerResourcesForGroupVersion(group); err != nil {
		if apierrors.IsNotFound(err) {
			return "", fmt.Errorf("the cluster does not serve %s: install the CRDs first (kubectl apply --server-side -k deploy/crds)", group)
		}
		return "", fmt.Errorf("asking whether the cluster serves %s: %w", group, err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	if o.observe {
		c = dryClient{c}
	}
	return clusterID(ctx, c, o.namespace, o.clusterID)
}
