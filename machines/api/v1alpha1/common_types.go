package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EmbeddedMetadata is the metadata of an object that is described inside another one. It has its own schema, because the API server removes
// all fields of an embedded ObjectMeta. Name, labels and annotations have an effect. Other fields are kept unchanged, because older writers
// could store a whole ObjectMeta.
type EmbeddedMetadata struct {
	// Name is the name of the server, the host and the Node. Empty means the Machine's own name. It has an effect only in a Machine's
	// spec.metadata.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Labels of the described object.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the described object.
	// +optional
	// +kubebuilder:validation:MaxProperties=1024
	Annotations map[string]string `json:"annotations,omitempty"`

	// GenerateName is stored but has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	GenerateName string `json:"generateName,omitempty"`
	// Namespace is stored but has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// Finalizers are stored but have no effect.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
	// CreationTimestamp is stored but has no effect. Older writers store a null, which is kept.
	// +optional
	// +nullable
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`

	ForeignMetadata `json:",inline"`
}

// ForeignMetadata holds fields of an ObjectMeta that have no effect in a template. They are declared only so that the API server keeps
// them, because machine-controller may have stored them.
type ForeignMetadata struct {
	// SelfLink is stored but has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	SelfLink string `json:"selfLink,omitempty"`
	// UID is stored but has no effect.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// ResourceVersion is stored but has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation is stored but has no effect.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// DeletionTimestamp is stored but has no effect.
	// +optional
	// +nullable
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp,omitempty"`
	// DeletionGracePeriodSeconds is stored but has no effect.
	// +optional
	DeletionGracePeriodSeconds *int64 `json:"deletionGracePeriodSeconds,omitempty"`
	// OwnerReferences are stored but have no effect.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
	// ManagedFields are stored but have no effect.
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +listType=atomic
	ManagedFields []runtime.RawExtension `json:"managedFields,omitempty"`
}

// MachineTemplateSpec describes the Machines that a set or deployment creates.
type MachineTemplateSpec struct {
	// Metadata holds the labels and annotations of each Machine.
	// +optional
	Metadata EmbeddedMetadata `json:"metadata,omitempty,omitzero"`
	// Spec is each Machine's spec.
	// +optional
	Spec MachineSpec `json:"spec,omitempty,omitzero"`
}

// ProviderSpec describes the server to create in the cloud: inline, or through a MachineClass.
type ProviderSpec struct {
	// Value is the provider's own document (cloudProvider, cloudProviderSpec, operatingSystem, …). kubectl explain describes the fields
	// that are declared here; other fields are kept.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *runtime.RawExtension `json:"value,omitempty"`
	// ValueFrom refers to an object that holds the document, in place of Value.
	// +optional
	ValueFrom *ProviderSpecSource `json:"valueFrom,omitempty"`
}

// ProviderSpecSource refers to a provider spec.
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

// MachineVersionInfo holds the versions of the software on a machine.
type MachineVersionInfo struct {
	// Kubelet is the kubelet's semantic version, with or without a leading v.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^v?[0-9]+[.][0-9]+[.][0-9]+([-+].*)?$')",message="must be a version like 1.36.2"
	Kubelet string `json:"kubelet,omitempty"`
	// ControlPlane is not used. It is kept for older writers.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ControlPlane string `json:"controlPlane,omitempty"`
}

// Removal names a Machine to delete, whichever Machine the delete policy would choose. As soon as the entry is written, the Machine no
// longer counts as living.
type Removal struct {
	// Name is the Machine's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the Machine's UID. A later Machine of the same name is not affected.
	UID types.UID `json:"uid"`
	// Time is when the removal was requested. The entry stays in spec.removals until the Machine is gone and 15 minutes have passed.
	// +optional
	// +nullable
	Time metav1.Time `json:"time,omitempty"`
}

// MaxReplicas limits spec.replicas of sets and deployments. The schema and an admission policy enforce it. An object with a larger size
// that was stored before there was a limit is not reconciled until its size is corrected.
const MaxReplicas = 100_000

// MaxRemovals limits the length of spec.removals of sets and deployments, and of spec.rolloutRemovals of sets.
const MaxRemovals = 2000

// HealthReplacement records a Machine that drover deletes because it is unhealthy, so that its set creates another one. The record counts
// towards the limit of simultaneous replacements until the Machine is gone and its successor is Ready, or until the successor has had
// enough time to become Ready. It stays until the next replacement, and for at least an hour.
type HealthReplacement struct {
	// Name is the Machine's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the Machine's UID.
	UID types.UID `json:"uid"`
	// Started is when drover began to replace the Machine. drover writes the record before it deletes the Machine.
	Started metav1.Time `json:"started"`
	// Host is the failed physical host that was the reason for the replacement. Release 0.1 writes it. Later releases do not read it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// Attempt is greater than 1 when the Machine was created after an earlier replacement in its group that is still recorded, which
	// therefore did not help. The next replacement of such a Machine waits longer each time. Empty counts as 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
}

// MaxHealthReplacements limits the length of status.healthReplacements of sets and deployments.
const MaxHealthReplacements = 100
