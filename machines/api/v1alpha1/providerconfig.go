package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// ProviderConfig is the common part of providerSpec.value, which is the same for every provider and operating system.
type ProviderConfig struct {
	// SSHPublicKeys are installed at the first boot. drover does not reconcile them afterwards.
	SSHPublicKeys []string `json:"sshPublicKeys,omitempty"`
	CAPublicKey   string   `json:"caPublicKey,omitempty"`
	// CloudProvider is the name of the provider; openstack is the only one.
	CloudProvider string `json:"cloudProvider,omitempty"`
	// CloudProviderSpec holds the fields that only this provider has.
	CloudProviderSpec runtime.RawExtension `json:"cloudProviderSpec,omitempty"`
	// OperatingSystem is ubuntu or flatcar.
	OperatingSystem string `json:"operatingSystem,omitempty"`
	// OperatingSystemSpec holds the fields that only this operating system has.
	OperatingSystemSpec runtime.RawExtension `json:"operatingSystemSpec,omitempty"`
	Network             *NetworkConfig       `json:"network,omitempty"`
	// OverwriteCloudConfig replaces the user data that drover would create.
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

// providerConfigFields holds the keys of ProviderConfig in their known spelling.
var providerConfigFields = []string{
	"sshPublicKeys", "caPublicKey", "cloudProvider", "cloudProviderSpec", "operatingSystem", "operatingSystemSpec",
	"network", "overwriteCloudConfig",
}

// ParseProviderConfig reads the common part of a providerSpec.value strictly: keys match regardless of case, null means unset, and an
// unknown key is an *[UnknownFieldError]. It returns an empty config for an empty document, and an error for each field that it leaves out.
// The text of every error begins with path and the name of the field.
func ParseProviderConfig(path string, raw []byte) (*ProviderConfig, []error) {
	fields, wrong := Fields(path, raw, providerConfigFields, nil)
	c := &ProviderConfig{}
	targets := map[string]any{
		"sshPublicKeys": &c.SSHPublicKeys, "caPublicKey": &c.CAPublicKey, "cloudProvider": &c.CloudProvider,
		"cloudProviderSpec": &c.CloudProviderSpec, "operatingSystem": &c.OperatingSystem, "operatingSystemSpec": &c.OperatingSystemSpec, "network": &c.Network, "overwriteCloudConfig": &c.OverwriteCloudConfig,
	}
	for _, name := range providerConfigFields {
		value, ok := fields[name]
		if !ok {
			continue
		}
		if err := strictly(value, targets[name]); err != nil {
			wrong = append(wrong, fmt.Errorf("%s.%s: %w", path, name, err))
			reflect.ValueOf(targets[name]).Elem().SetZero()
		}
	}
	return c, wrong
}

// strictly decodes raw into the value into. It returns an error for keys that the type of into does not have.
func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
