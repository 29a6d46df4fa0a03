package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ClusterNameLabel is the label of a Machine that names the Cluster object of the Machine, in the same namespace.
const ClusterNameLabel = "cluster.k8s.io/cluster-name"

// Cluster holds what the machines of a cluster have in common. Its provider spec fills the fields that a Machine's provider spec leaves
// empty. A change affects new servers only.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories=drover
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, legacy API"
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.providerSpec.value.cloudProvider`
// +kubebuilder:printcolumn:name="Service-Domain",type=string,JSONPath=`.spec.clusterNetwork.serviceDomain`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.errorReason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec holds what a cluster's machines have in common.
type ClusterSpec struct {
	// ClusterNetwork holds the address ranges of the cluster.
	// +optional
	ClusterNetwork ClusterNetworkingConfig `json:"clusterNetwork,omitempty,omitzero"`
	// ProviderSpec fills the fields that a Machine's own provider spec, and its class, leave empty.
	// +optional
	ProviderSpec ProviderSpec `json:"providerSpec,omitempty,omitzero"`
}

// ClusterNetworkingConfig holds the address ranges of a cluster.
type ClusterNetworkingConfig struct {
	// Services are the ranges of service addresses. The cluster DNS address of the kubelet is the tenth address of the first range.
	// +optional
	Services NetworkRanges `json:"services,omitempty,omitzero"`
	// Pods are the ranges of pod addresses.
	// +optional
	Pods NetworkRanges `json:"pods,omitempty,omitzero"`
	// ServiceDomain is the domain of service names. Default: cluster.local.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceDomain string `json:"serviceDomain,omitempty"`
}

// NetworkRanges are address ranges in CIDR form.
type NetworkRanges struct {
	// CIDRBlocks are ranges like 10.96.0.0/16.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.matches('^[0-9a-fA-F:.]+/[0-9]{1,3}$'))",message="must be address ranges like 10.96.0.0/16"
	// +listType=atomic
	CIDRBlocks []string `json:"cidrBlocks,omitempty"`
}

// ClusterStatus is the observed state of a cluster.
type ClusterStatus struct {
	// APIEndpoints are the addresses of the cluster's API servers.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	APIEndpoints []APIEndpoint `json:"apiEndpoints,omitempty"`
	// ErrorReason is the stable code of an error; empty when there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ErrorReason *string `json:"errorReason,omitempty"`
	// ErrorMessage describes the error.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// ProviderStatus is the provider's own record.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
}

// APIEndpoint is the address of an API server of the cluster.
type APIEndpoint struct {
	// Host is a name or an address.
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// Port is a TCP port.
	Port int `json:"port"`
}

// +kubebuilder:object:root=true

// ClusterList is a list of Clusters.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
