package provider

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// withoutRegion is the prefix of the server's ID in a provider ID without a region.
const withoutRegion = Scheme + "/"

// IDPrefix returns the prefix of the server's ID in a Node's provider ID; empty for a bare ID and for provider IDs of other clouds.
func (Provider) IDPrefix(providerID string) string {
	id, err := ParseID(providerID)
	if err != nil || IsUUID(providerID) {
		return ""
	}
	return Scheme + id.Region + "/"
}

// KubeletIDPrefix returns the prefix of the provider ID that the kubelet of a new Node registers with; the server's ID follows
// it. The prefix has the form that most existing Nodes have, with or without a region. Without Nodes, it has a region if
// Provider.Region is set. The region is that of the Machine's spec or, if the spec has none, the only region in the Nodes'
// provider IDs. The result is empty when the region is not known: then the cloud-controller-manager sets the provider ID.
func (o Provider) KubeletIDPrefix(config *v1alpha1.ProviderConfig, existing map[string]int) string {
	var regional []string
	with, without := 0, existing[withoutRegion]
	for _, prefix := range slices.Sorted(maps.Keys(existing)) {
		if prefix != withoutRegion && strings.HasPrefix(prefix, Scheme) {
			with += existing[prefix]
			regional = append(regional, prefix)
		}
	}
	wanted := o.Region
	if with+without > 0 {
		wanted = with > without
	}
	if !wanted {
		return withoutRegion
	}
	if region := regionOf(config); region != "" {
		return Scheme + region + "/"
	}
	if len(regional) == 1 {
		return regional[0]
	}
	return ""
}

// plainRegion matches region names that need no quoting in a shell on the server, and that have no slash.
var plainRegion = regexp.MustCompile(`^[A-Za-z0-9._~:?#@!&*+,;=%\[\]-]*$`)

// regionOf returns the region in a provider spec; empty when the spec has no region or takes it from a reference.
func regionOf(config *v1alpha1.ProviderConfig) string {
	var fields struct {
		Region json.RawMessage `json:"region"`
	}
	if json.Unmarshal(config.CloudProviderSpec.Raw, &fields) != nil {
		return ""
	}
	var text string
	var object struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(fields.Region, &text) != nil && json.Unmarshal(fields.Region, &object) == nil {
		text = object.Value
	}
	if !plainRegion.MatchString(text) {
		return ""
	}
	return text
}
