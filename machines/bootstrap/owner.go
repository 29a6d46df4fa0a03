package bootstrap

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Owners are the set and the deployment that a Machine belongs to. Either may be nil.
type Owners struct {
	Set        *v1alpha1.MachineSet
	Deployment *v1alpha1.MachineDeployment
}

// OwnersOf reads a Machine's owners. It returns a *[Waiting] for an owner that does not exist yet or no longer exists, because drover
// must not ignore the annotations of that owner.
func OwnersOf(ctx context.Context, reader client.Reader, m *v1alpha1.Machine) (Owners, error) {
	var out Owners
	set, deployment := &v1alpha1.MachineSet{}, &v1alpha1.MachineDeployment{}
	there, err := owner(ctx, reader, m, v1alpha1.MachineSetKind.Kind, set)
	if err != nil || !there {
		return out, err
	}
	out.Set = set
	there, err = owner(ctx, reader, set, v1alpha1.MachineDeploymentKind.Kind, deployment)
	if err == nil && there {
		out.Deployment = deployment
	}
	return out, err
}

func owner(ctx context.Context, reader client.Reader, of client.Object, kind string, into client.Object) (bool, error) {
	ref := metav1.GetControllerOf(of)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	err := reader.Get(ctx, types.NamespacedName{Namespace: of.GetNamespace(), Name: ref.Name}, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	if err != nil || into.GetUID() != ref.UID {
		return false, waiting("%s %s, the owner of %s, does not exist", kind, ref.Name, of.GetName())
	}
	return true, nil
}

// Labels and annotations of operating-system-manager.
const (
	annotationProfile     = "k8c.io/operating-system-profile"
	annotationRevisionOSM = "k8c.io/machine-deployment-revision"
	finalizerProfile      = "kubermatic.io/cleanup-operating-system-configs"
	labelTokenDeployment  = "machinedeployment.k8s.io/name"
	namespaceCloudInit    = "cloud-init-settings"
)

// GroupOSM is the group of the users that authenticate with operating-system-manager's bootstrap tokens.
const GroupOSM = "system:bootstrappers:machine-controller:default-node-token"

// ManagedByOSM reports whether operating-system-manager creates the user data of a deployment's Machines.
func ManagedByOSM(d *v1alpha1.MachineDeployment) bool {
	return d != nil && (d.Annotations[annotationProfile] != "" || slices.Contains(d.Finalizers, finalizerProfile))
}

// tokenLabelOSM returns the label that operating-system-manager puts on the token of a deployment.
func tokenLabelOSM(d *v1alpha1.MachineDeployment) string {
	if label := d.Namespace + "-" + d.Name; len(label) < 63 {
		return label
	}
	return d.Name
}
