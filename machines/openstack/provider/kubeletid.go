package provider

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/providerid"
)

// withoutRegion stands before the server's ID when a provider ID names no region.
const withoutRegion = providerid.Scheme + "/"

// IDPrefix returns what stands before the server's ID in a Node's provider ID; empty for the ID alone, and for provider IDs
// of other clouds.
func (Provider) IDPrefix(providerID string) string {
	id, err := providerid.Parse(providerID)
	if err != nil || providerid.IsUUID(providerID) {
		return ""
	}
	return providerid.Scheme + id.Region + "/"
}

// KubeletIDPrefix returns what a new Node writes before its server's ID: the form that most Nodes have; without Nodes the one
// with a region when that is wanted, else the one without. In the form with a region, it is the Machine's own, else the only
// one that the Nodes name. It is empty when that is not known: then the cloud-controller-manager writes the provider ID.
func (o Provider) KubeletIDPrefix(config *v1alpha1.ProviderConfig, existing map[string]int) string {
	var regional []string
	with, without := 0, existing[withoutRegion]
	for _, prefix := range slices.Sorted(maps.Keys(existing)) {
		if prefix != withoutRegion && strings.HasPrefix(prefix, providerid.Scheme) {
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
		return providerid.Scheme + region + "/"
	}
	if len(regional) == 1 {
		return regional[0]
	}
	return ""
}

// plainRegion is what may stand in a region's name: all that needs no quoting on a server, without the slash.
var plainRegion = regexp.MustCompile(`^[A-Za-z0-9._~:?#@!&*+,;=%\[\]-]*$`)

// regionOf returns the region that a provider spec names in plain; else empty.
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
