package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// machineControllerScheme is the prefix of the provider IDs that machine-controller makes itself: kubermatic://CLOUD/UID.
const machineControllerScheme = "kubermatic://"

// MachineControllerUID returns the UID in a provider ID that machine-controller has made itself, of the cloud's name and the Machine's
// UID. It writes it into Machines and Nodes of a cluster without a cloud-controller-manager. Such a provider ID names no server. ok is
// false for every other provider ID.
func MachineControllerUID(providerID string) (uid types.UID, ok bool) {
	rest, ours := strings.CutPrefix(providerID, machineControllerScheme)
	_, text, ok := strings.Cut(rest, "/")
	return types.UID(text), ours && ok
}
