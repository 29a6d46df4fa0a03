package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineClass is a provider spec with a name. It is immutable: a new spec is a new class, and naming that rolls.
//
// +kubebuilder:object:root=true
type MachineClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Provider is the name of the provider that the class is meant for. Default: openstack.
	// +optional
	Provider string `json:"provider,omitempty"`
	// ProviderSpec is the provider's own document, as in a Machine's providerSpec.value.
	// +optional
	ProviderSpec *runtime.RawExtension `json:"providerSpec,omitempty"`
	// SecretRef names a Secret with user data (key userData or cloudConfig).
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
	// CredentialsSecretRef names a Secret with credentials; its keys lie over those of SecretRef.
	// +optional
	CredentialsSecretRef *corev1.SecretReference `json:"credentialsSecretRef,omitempty"`
	// NodeTemplate overrides what the flavor says, for the autoscaler.
	// +optional
	NodeTemplate *ClassNodeTemplate `json:"nodeTemplate,omitempty"`
}

// ClassNodeTemplate is what a class says of the nodes it makes.
type ClassNodeTemplate struct {
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// +optional
	VirtualCapacity corev1.ResourceList `json:"virtualCapacity,omitempty"`
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// +optional
	Region string `json:"region,omitempty"`
	// +optional
	Zone string `json:"zone,omitempty"`
	// Architecture is amd64 (default) or arm64.
	// +optional
	Architecture *string `json:"architecture,omitempty"`
}

// +kubebuilder:object:root=true

// MachineClassList is a list of MachineClasses.
type MachineClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineClass `json:"items"`
}
