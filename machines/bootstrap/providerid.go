package bootstrap

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/providerid"
	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// providerPlain stands before the server's ID when a provider ID names no region.
const providerPlain = providerid.Scheme + "/"

// providerForms counts what stands before the server's id in the nodes' provider IDs.
func providerForms(nodes []corev1.Node) map[string]int {
	out := map[string]int{}
	for i := range nodes {
		text := nodes[i].Spec.ProviderID
		if id, err := providerid.Parse(text); err == nil && !providerid.IsUUID(text) {
			out[providerid.Scheme+id.Region+"/"]++
		}
	}
	return out
}

// providerIDPrefix is what a new node is to write before its server's id: the form that most nodes have; without nodes
// the one with a region when that is wanted, else the one without. In the form with a region, it is the Machine's own,
// else the only one that the nodes name. Empty when it cannot be told: then the cloud-controller-manager writes it.
func providerIDPrefix(forms map[string]int, region string, wantRegion bool) string {
	without, with := forms[providerPlain], 0
	for _, n := range forms {
		with += n
	}
	with -= without
	if with+without > 0 {
		wantRegion = with > without
	}
	if !wantRegion {
		return providerPlain
	}
	if region != "" {
		return providerid.Scheme + region + "/"
	}
	regions := slices.DeleteFunc(slices.Collect(maps.Keys(forms)), func(p string) bool { return p == providerPlain })
	if len(regions) == 1 {
		return regions[0]
	}
	return ""
}

// regionOf reads the region out of a provider's own document when it stands there in plain; else empty.
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
	if !plain.MatchString(text) || strings.Contains(text, "/") {
		return ""
	}
	return text
}
