package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// sharedServerGroup is the value of --server-group that puts all servers into one group of the cluster.
const sharedServerGroup = "shared"

// cloudOptions are those of the cloud layer.
type cloudOptions struct {
	serverGroup string
}

func (o *cloudOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.serverGroup, "server-group", o.serverGroup, "server group of servers whose provider spec names none: shared (one of the cluster, with soft-anti-affinity, made when it is not there); empty: none")
}

func (o *cloudOptions) validate() error {
	if o.serverGroup != "" && o.serverGroup != sharedServerGroup {
		return fmt.Errorf("--server-group %q: it can be %s or empty; name a certain group in the provider spec", o.serverGroup, sharedServerGroup)
	}
	return nil
}

// mayCollect reads a person's word from the ConfigMap of the cluster id: its annotation lets the mass guards go (design
// §2.4). It is read only while something is held.
func mayCollect(c client.Reader, namespace string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var stored corev1.ConfigMap
		key := client.ObjectKey{Namespace: namespace, Name: clusterIDConfigMap}
		if err := c.Get(ctx, key, &stored); err != nil {
			return false, fmt.Errorf("reading ConfigMap %s: %w", key, err)
		}
		return stored.Annotations[v1alpha1.AnnotationCollect] == "yes", nil
	}
}
