package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

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

// providerConfigFields are the keys of the envelope as they are spelled.
var providerConfigFields = []string{
	"sshPublicKeys", "caPublicKey", "cloudProvider", "cloudProviderSpec", "operatingSystem", "operatingSystemSpec",
	"network", "overwriteCloudConfig",
}

// ParseProviderConfig reads the envelope of a providerSpec.value strictly: keys are matched without regard to case, null
// means unset, and a key that it does not have is an *[UnknownFieldError]. An empty document gives an empty config.
// Whatever is wrong, the error begins with path and the field, for people.
func ParseProviderConfig(path string, raw []byte) (*ProviderConfig, error) {
	fields, err := Fields(path, raw, providerConfigFields, nil)
	if err != nil {
		return nil, err
	}
	c := &ProviderConfig{}
	targets := map[string]any{
		"sshPublicKeys": &c.SSHPublicKeys, "caPublicKey": &c.CAPublicKey, "cloudProvider": &c.CloudProvider,
		"operatingSystem": &c.OperatingSystem, "network": &c.Network, "overwriteCloudConfig": &c.OverwriteCloudConfig,
	}
	for _, name := range providerConfigFields {
		value, ok := fields[name]
		if !ok {
			continue
		}
		switch name {
		case "cloudProviderSpec":
			c.CloudProviderSpec.Raw = value
		case "operatingSystemSpec":
			c.OperatingSystemSpec.Raw = value
		default:
			if err := strictly(value, targets[name]); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", path, name, err)
			}
		}
	}
	return c, nil
}

// strictly decodes into a type, and refuses keys that the type does not have.
func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
