package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
