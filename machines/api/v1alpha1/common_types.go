package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EmbeddedMetadata is the metadata of an object described inside another one. It has a schema of its own, because the
// API server prunes an embedded ObjectMeta to nothing.
type EmbeddedMetadata struct {
	// Name is the server's, the host's and the node's name. Empty means the Machine's own name.
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	GenerateName string `json:"generateName,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	Finalizers []string `json:"finalizers,omitempty"`
	// CreationTimestamp has no meaning here; older writers leave a null behind, which is kept.
	// +optional
	// +nullable
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`
}

// MachineTemplateSpec describes the Machines that a set or deployment makes.
type MachineTemplateSpec struct {
	// Metadata is put on each Machine: labels and annotations only.
	// +optional
	Metadata EmbeddedMetadata `json:"metadata,omitempty"`
	// Spec is each Machine's spec.
	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
}

// ProviderSpec says what the cloud is asked for: inline, or through a MachineClass.
type ProviderSpec struct {
	// Value is the provider's own document (cloudProvider, cloudProviderSpec, operatingSystem, …). See the package
	// machines/openstack for its fields.
	// +optional
	Value *runtime.RawExtension `json:"value,omitempty"`
	// ValueFrom names where the document stands instead.
	// +optional
	ValueFrom *ProviderSpecSource `json:"valueFrom,omitempty"`
}

// ProviderSpecSource names the source of a provider spec.
type ProviderSpecSource struct {
	// +optional
	MachineClass *MachineClassRef `json:"machineClass,omitempty"`
}

// MachineClassRef names a MachineClass.
type MachineClassRef struct {
	corev1.ObjectReference `json:",inline"`
	// Provider is the name of the provider that the class is meant for.
	// +optional
	Provider string `json:"provider,omitempty"`
}

// MachineVersionInfo holds versions of what runs on a machine.
type MachineVersionInfo struct {
	// Kubelet is the kubelet's semantic version, with or without a leading v.
	// +optional
	Kubelet string `json:"kubelet,omitempty"`
	// ControlPlane is not used; it is kept for older writers.
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
}

// Removal names a Machine that is to go, whatever the delete policy would choose. A listed Machine counts as not living
// everywhere, from the write that lists it on.
type Removal struct {
	// Name is the Machine's name.
	Name string `json:"name"`
	// UID is the Machine's UID: a Machine of the same name that came later is not meant.
	UID types.UID `json:"uid"`
	// Time is when the removal was asked for. The entry stays until the Machine is gone and 15 minutes have passed.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
}

// MaxRemovals bounds spec.removals of sets and deployments.
const MaxRemovals = 2000
