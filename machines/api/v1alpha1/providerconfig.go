package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// ProviderConfig is the envelope of providerSpec.value: what every provider and operating system has in common.
type ProviderConfig struct {
	// SSHPublicKeys are authorised at first boot and not reconciled afterwards.
	SSHPublicKeys []string `json:"sshPublicKeys,omitempty"`
	CAPublicKey   string   `json:"caPublicKey,omitempty"`
	// CloudProvider names the provider; openstack is the one there is.
	CloudProvider string `json:"cloudProvider,omitempty"`
	// CloudProviderSpec is the provider's own part.
	CloudProviderSpec runtime.RawExtension `json:"cloudProviderSpec,omitempty"`
	// OperatingSystem is ubuntu or flatcar.
	OperatingSystem string `json:"operatingSystem,omitempty"`
	// OperatingSystemSpec is the operating system's own part.
	OperatingSystemSpec runtime.RawExtension `json:"operatingSystemSpec,omitempty"`
	Network             *NetworkConfig       `json:"network,omitempty"`
	// OverwriteCloudConfig replaces the user data that drover would make.
	OverwriteCloudConfig *string `json:"overwriteCloudConfig,omitempty"`
}

// NetworkConfig is static network configuration of the operating system.
type NetworkConfig struct {
	CIDR     string    `json:"cidr,omitempty"`
	Gateway  string    `json:"gateway,omitempty"`
	DNS      DNSConfig `json:"dns,omitempty"`
	IPFamily string    `json:"ipFamily,omitempty"`
}

// DNSConfig names the resolvers.
type DNSConfig struct {
	Servers []string `json:"servers,omitempty"`
}
