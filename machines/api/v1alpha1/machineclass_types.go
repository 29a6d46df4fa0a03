package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MachineClass is a provider spec with a name. It is immutable: for a new spec, create a new class and refer to it, which rolls the
// Machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=mc,path=machineclasses,categories=drover
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, legacy API"
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.provider`
// +kubebuilder:printcolumn:name="Flavor",type=string,JSONPath=`.providerSpec.cloudProviderSpec.flavor`
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.providerSpec.operatingSystem`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Provider is the name of the provider that the class is meant for. Default: openstack.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// ProviderSpec is the provider's own document, as in a Machine's providerSpec.value.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ProviderSpec *runtime.RawExtension `json:"providerSpec,omitempty"`
	// SecretRef names a Secret with user data (key userData or cloudConfig).
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
	// CredentialsSecretRef names a Secret with credentials. Its keys take precedence over those of SecretRef.
	// +optional
	CredentialsSecretRef *corev1.SecretReference `json:"credentialsSecretRef,omitempty"`
	// NodeTemplate overrides the values of the flavor, for the autoscaler.
	// +optional
	NodeTemplate *ClassNodeTemplate `json:"nodeTemplate,omitempty"`
}

// ClassNodeTemplate describes the nodes of a class.
type ClassNodeTemplate struct {
	// Capacity replaces the values of the flavor, resource by resource.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// VirtualCapacity holds resources of the node that do not come from the flavor of its server.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	VirtualCapacity corev1.ResourceList `json:"virtualCapacity,omitempty"`
	// InstanceType becomes the node's label node.kubernetes.io/instance-type.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	InstanceType string `json:"instanceType,omitempty"`
	// Region becomes the node's label topology.kubernetes.io/region.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`
	// Zone becomes the node's label topology.kubernetes.io/zone.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone,omitempty"`
	// Architecture is amd64 (default) or arm64.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture *string `json:"architecture,omitempty"`
}

// +kubebuilder:object:root=true

// MachineClassList is a list of MachineClasses.
type MachineClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineClass `json:"items"`
}
