package provider

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestWhichProviderIDTheKubeletOfANewNodeReceives(t *testing.T) {
	for _, tt := range []struct {
		name       string
		nodes      []string
		region     string
		wantRegion bool
		want       string
	}{
		{"has no region when there are no Nodes yet and the feature provider-id-region is not set", nil, "", false, "openstack:///"},
		{"has the spec's region when there are no Nodes yet and the feature provider-id-region is set", nil, "west", true, "openstack://west/"},
		{"is empty when there are no Nodes yet, the feature provider-id-region is set, and the spec has no region", nil, "", true, ""},
		{"has no region because the existing Nodes' provider IDs have none, although the feature provider-id-region is set", []string{"openstack:///0a1b2c3d-0000-4000-8000-00000000000a", "openstack:///0a1b2c3d-0000-4000-8000-00000000000b"}, "west", true, "openstack:///"},
		{"has the region of the existing Nodes' provider IDs when the spec has no region", []string{"openstack://east/0a1b2c3d-0000-4000-8000-00000000000a", "other:///x", ""}, "", false, "openstack://east/"},
		{"has the spec's region, in which the new server is, when the existing Nodes' provider IDs have another region", []string{"openstack://east/0a1b2c3d-0000-4000-8000-00000000000a"}, "west", false, "openstack://west/"},
		{"is empty when the existing Nodes' provider IDs have several regions and the spec has none", []string{"openstack://east/0a1b2c3d-0000-4000-8000-00000000000a", "openstack://west/0a1b2c3d-0000-4000-8000-00000000000b"}, "", false, ""},
		{"has no region because most existing Nodes' provider IDs have none, although one Node's and the spec have one", []string{"openstack://east/0a1b2c3d-0000-4000-8000-00000000000a", "openstack:///0a1b2c3d-0000-4000-8000-00000000000b", "openstack:///0a1b2c3d-0000-4000-8000-00000000000c"}, "east", false, "openstack:///"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			existing := map[string]int{"memory://": 9}
			o := Provider{Region: tt.wantRegion}
			for _, id := range tt.nodes {
				existing[o.IDPrefix(id)]++
			}
			config := &v1alpha1.ProviderConfig{CloudProviderSpec: runtime.RawExtension{Raw: []byte(`{"region":"` + tt.region + `"}`)}}
			if got := o.KubeletIDPrefix(config, existing); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRegionIsReadOnlyFromAPlainAndValidValueInTheSpec(t *testing.T) {
	for raw, want := range map[string]string{
		`{"region":"west"}`: "west", `{"Region":{"value":"west"}}`: "west", `{}`: "", ``: "",
		`{"region":{"secretKeyRef":{"name":"a"}}}`: "", `{"region":"a/b"}`: "", `{"region":"a'b"}`: "",
	} {
		t.Run("returns the region \""+want+"\" for the spec '"+raw+"'", func(t *testing.T) {
			if got := regionOf(&v1alpha1.ProviderConfig{CloudProviderSpec: runtime.RawExtension{Raw: []byte(raw)}}); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
