package orphans

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definitions are the names of the CRDs whose deletion deletes Machines.
var definitions = []string{"machines.cluster.k8s.io", "machinesets.cluster.k8s.io", "machinedeployments.cluster.k8s.io"}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// definedSince returns the creation time of the youngest of the CRDs in definitions. It returns an error when one of them is
// missing, is being deleted, or cannot be read: Machines that are missing may then have been deleted with that CRD.
func (c *Collector) definedSince(ctx context.Context) (youngest time.Time, err error) {
	for _, name := range definitions {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(definitionKind)
		if err := c.Control.GetAPIReader().Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return youngest, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
		if crd.DeletionTimestamp != nil {
			return youngest, fmt.Errorf("CustomResourceDefinition %s is being deleted, and Machines with it", name)
		}
		if made := crd.CreationTimestamp.Time; made.After(youngest) {
			youngest = made
		}
	}
	return youngest, nil
}
