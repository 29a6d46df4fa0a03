package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ClusterNameLabel, on a Machine, names the Cluster of its namespace that it belongs to.
const ClusterNameLabel = "cluster.k8s.io/cluster-name"

// Cluster holds what the machines of a cluster have in common. Its provider spec fills what a Machine's leaves empty; a
// change touches new servers only.
//
// +kubebuilder:object:root=true
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is what a cluster's machines have in common.
type ClusterSpec struct {
	// +optional
	ClusterNetwork ClusterNetworkingConfig `json:"clusterNetwork,omitempty"`
	// +optional
	ProviderSpec ProviderSpec `json:"providerSpec,omitempty"`
}

// ClusterNetworkingConfig names the cluster's address ranges.
type ClusterNetworkingConfig struct {
	// +optional
	Services NetworkRanges `json:"services,omitempty"`
	// +optional
	Pods NetworkRanges `json:"pods,omitempty"`
	// ServiceDomain is the domain of service names. Default: cluster.local.
	// +optional
	ServiceDomain string `json:"serviceDomain,omitempty"`
}

// NetworkRanges are address ranges in CIDR form.
type NetworkRanges struct {
	// +optional
	CIDRBlocks []string `json:"cidrBlocks,omitempty"`
}

// ClusterStatus is what is known of a cluster.
type ClusterStatus struct {
	// +optional
	APIEndpoints []APIEndpoint `json:"apiEndpoints,omitempty"`
	// +optional
	ErrorReason *string `json:"errorReason,omitempty"`
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
}

// APIEndpoint is where an API server of the cluster listens.
type APIEndpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// +kubebuilder:object:root=true

// ClusterList is a list of Clusters.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
