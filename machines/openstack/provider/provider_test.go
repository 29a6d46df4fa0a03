package provider

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

func TestMessageListsTheResourcesThatADeletedMachineMayLeaveBehind(t *testing.T) {
	for text, want := range map[string]string{
		"": `server m, and ports and floating IPs whose description begins with "drover c u", may be left`,
		`{"serverID":"s","projectID":"p","region":"r","portIDs":["a"],"floatingIPID":"f","volumeIDs":["v"]}`: `server m (s), and ports and floating IPs whose description begins with "drover c u", may be left` +
			` in project p, region "r"; by the last record a, f; volumes v too`,
	} {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}, Status: v1alpha1.MachineStatus{ProviderStatus: stored(text)}}
		if got := (Provider{ClusterID: "c"}).MayBeLeft(m); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPlacementIsTheFlavorAndZoneOfAMachineSpec(t *testing.T) {
	for text, want := range map[string]struct {
		placement cloud.Placement
		known     bool
	}{
		`{"cloudProviderSpec":{"flavor":"small","availabilityZone":"a"}}`:                       {cloud.Placement{Flavor: "small", Zone: "a"}, true},
		`{"CloudProviderSpec":{"FLAVOR":"small"}}`:                                              {cloud.Placement{Flavor: "small"}, true},
		`{"cloudProviderSpec":{"flavor":{"secretKeyRef":{"name":"a"}},"availabilityZone":"a"}}`: {cloud.Placement{Zone: "a"}, true},
		`{}`: {cloud.Placement{}, true},
		`[]`: {},
		``:   {},
	} {
		var spec v1alpha1.MachineSpec
		spec.ProviderSpec.Value = stored(text)
		if got, known := (Provider{}).Placement(&spec); got != want.placement || known != want.known {
			t.Errorf("%s: got %+v, %v", text, got, known)
		}
	}
}
