package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
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
	return clusterID(ctx, c, o.namespace, o.clusterID)
}

// The ConfigMap in drover's namespace that stores the cluster id.
const (
	clusterIDConfigMap = "drover-cluster-id"
	clusterIDKey       = "clusterID"
)

// clusterID returns the id that marks this cluster's cloud resources: the flag's value, or else the UID of kube-system. The
// id is stored once. With a different id, every server would look like another cluster's. Therefore a change is refused
// (docs/design.md).
func clusterID(ctx context.Context, c client.Client, namespace, flag string) (string, error) {
	id := flag
	if id == "" {
		var system corev1.Namespace
		if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
			return "", fmt.Errorf("reading namespace %s for the cluster ID: %w", metav1.NamespaceSystem, err)
		}
		id = string(system.UID)
	}
	key := client.ObjectKey{Namespace: namespace, Name: clusterIDConfigMap}
	var stored corev1.ConfigMap
	err := c.Get(ctx, key, &stored)
	if apierrors.IsNotFound(err) {
		stored = corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Data:       map[string]string{clusterIDKey: id},
		}
		err = c.Create(ctx, &stored)
		if apierrors.IsAlreadyExists(err) {
			// Another replica has created the ConfigMap first.
			err = c.Get(ctx, key, &stored)
		}
	}
	if err != nil {
		return "", fmt.Errorf("storing the cluster ID in ConfigMap %s: %w", key, err)
	}
	switch was := stored.Data[clusterIDKey]; {
	case was == "":
		return "", fmt.Errorf("ConfigMap %s has no key %s: delete the ConfigMap, so that drover stores the ID %q again", key, clusterIDKey, id)
	case flag != "" && was != flag:
		return "", fmt.Errorf("--cluster-id %q differs from %q in ConfigMap %s: existing servers have the ID in the ConfigMap; "+
			"remove the flag, or change the ConfigMap once no server of this cluster is left", flag, was, key)
	default:
		return was, nil
	}
}

// oldestServer is the oldest API server version that drover works with. It is the first version with stable
// ValidatingAdmissionPolicies and with ratcheting of CEL rules.
var oldestServer = utilversion.MustParseGeneric("1.30.0")

// checkServer returns an error when the API server is too old.
func checkServer(d discovery.ServerVersionInterface) error {
	info, err := d.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	return checkVersion(info)
}

// checkVersion returns an error when an API server's version is too old or cannot be parsed.
func checkVersion(info *apiversion.Info) error {
	v, err := utilversion.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("reading the API server's version %q: %w", info.GitVersion, err)
	}
	if v.LessThan(oldestServer) {
		return fmt.Errorf("the API server is Kubernetes %s; drover needs %s or newer", info.GitVersion, oldestServer)
	}
	return nil
}
