package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EmbeddedMetadata is the metadata of an object described inside another one. It has a schema of its own, because the
// API server prunes an embedded ObjectMeta to nothing. Name, labels and annotations mean something; the rest is kept as
// it is found, because older writers could store a whole ObjectMeta.
type EmbeddedMetadata struct {
	// Name is the server's, the host's and the node's name. Empty means the Machine's own name. Only a Machine's
	// spec.metadata has use for it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Labels for the object described.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations for the object described.
	// +optional
	// +kubebuilder:validation:MaxProperties=1024
	Annotations map[string]string `json:"annotations,omitempty"`

	// GenerateName has no meaning here.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	GenerateName string `json:"generateName,omitempty"`
	// Namespace has no meaning here.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Finalizers have no meaning here.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
	// CreationTimestamp has no meaning here; older writers leave a null behind, which is kept.
	// +optional
	// +nullable
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`

	ForeignMetadata `json:",inline"`
}

// ForeignMetadata are the fields of an ObjectMeta that say nothing about an object that does not exist yet. They are
// declared only so that they survive: what machine-controller could store must read back unchanged.
type ForeignMetadata struct {
	// SelfLink has no meaning here.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	SelfLink string `json:"selfLink,omitempty"`
	// UID has no meaning here.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// ResourceVersion has no meaning here.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation has no meaning here.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// DeletionTimestamp has no meaning here.
	// +optional
	// +nullable
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp,omitempty"`
	// DeletionGracePeriodSeconds has no meaning here.
	// +optional
	DeletionGracePeriodSeconds *int64 `json:"deletionGracePeriodSeconds,omitempty"`
	// OwnerReferences have no meaning here.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
	// ManagedFields have no meaning here.
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +listType=atomic
	ManagedFields []runtime.RawExtension `json:"managedFields,omitempty"`
}

// MachineTemplateSpec describes the Machines that a set or deployment makes.
type MachineTemplateSpec struct {
	// Metadata is put on each Machine: labels and annotations only.
	// +optional
	Metadata EmbeddedMetadata `json:"metadata,omitempty,omitzero"`
	// Spec is each Machine's spec.
	// +optional
	Spec MachineSpec `json:"spec,omitempty,omitzero"`
}

// ProviderSpec says what the cloud is asked for: inline, or through a MachineClass.
type ProviderSpec struct {
	// Value is the provider's own document (cloudProvider, cloudProviderSpec, operatingSystem, …). Fields that are
	// declared here can be explained; others are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *runtime.RawExtension `json:"value,omitempty"`
	// ValueFrom names where the document stands instead.
	// +optional
	ValueFrom *ProviderSpecSource `json:"valueFrom,omitempty"`
}

// ProviderSpecSource names the source of a provider spec.
type ProviderSpecSource struct {
	// MachineClass names a MachineClass of the Machine's namespace.
	// +optional
	MachineClass *MachineClassRef `json:"machineClass,omitempty"`
}

// MachineClassRef names a MachineClass.
type MachineClassRef struct {
	corev1.ObjectReference `json:",inline"`
	// Provider is the name of the provider that the class is meant for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
}

// MachineVersionInfo holds versions of what runs on a machine.
type MachineVersionInfo struct {
	// Kubelet is the kubelet's semantic version, with or without a leading v.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^v?[0-9]+[.][0-9]+[.][0-9]+([-+].*)?$')",message="must be a version like 1.36.2"
	Kubelet string `json:"kubelet,omitempty"`
	// ControlPlane is not used; it is kept for older writers.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ControlPlane string `json:"controlPlane,omitempty"`
}

// Removal names a Machine that is to go, whatever the delete policy would choose. A listed Machine counts as not living
// everywhere, from the write that lists it on.
type Removal struct {
	// Name is the Machine's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the Machine's UID: a Machine of the same name that came later is not meant.
	UID types.UID `json:"uid"`
	// Time is when the removal was asked for. An entry of spec.removals stays until the Machine is gone and 15 minutes have
	// passed.
	// +optional
	// +nullable
	Time metav1.Time `json:"time,omitempty"`
}

// MaxReplicas bounds spec.replicas of sets and deployments. The schema and an admission policy hold it; an object that was
// stored with a larger size before they did is not followed until its size is corrected.
const MaxReplicas = 100_000

// MaxRemovals bounds spec.removals of sets and deployments, and spec.rolloutRemovals of sets.
const MaxRemovals = 2000

// HealthReplacement is a Machine that drover deletes because it is unhealthy, so that its set makes another. It counts against
// the number of Machines that are replaced at once until the Machine is gone and its successor is Ready, or the successor
// has had the time to become so.
type HealthReplacement struct {
	// Name is the Machine's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the Machine's UID.
	UID types.UID `json:"uid"`
	// Started is when drover began to replace the Machine. It is written before the Machine is deleted.
	Started metav1.Time `json:"started"`
	// Host is the physical host whose failure the Machine is replaced for; empty when others on its host are well. All Machines of
	// one failed host count once.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
}

// MaxHealthReplacements bounds status.healthReplacements of sets and deployments.
const MaxHealthReplacements = 100
