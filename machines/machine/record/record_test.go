package record

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
)

func recording(raw string) *v1alpha1.Machine {
	m := &v1alpha1.Machine{}
	if raw != "" {
		m.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(raw)}
	}
	return m
}

func recorded(m *v1alpha1.Machine) string {
	if m.Status.ProviderStatus == nil {
		return ""
	}
	return string(m.Status.ProviderStatus.Raw)
}

func TestWriteServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string
		server *cloud.Server
		want   string
	}{
		{"without a server nothing is recorded", "", nil, ""},
		{"a server is recorded with what goes with it", "",
			&cloud.Server{ID: "s", Zone: "z", HostID: "h", PortIDs: []string{"p"}, FloatingIPID: "f", VolumeIDs: []string{"v"}, ProjectID: "q", Region: "r"},
			`{"hostID":"h","serverID":"s","zone":"z","portIDs":["p"],"floatingIPID":"f","volumeIDs":["v"],"projectID":"q","region":"r"}`},
		{"a recorded volume stays", `{"serverID":"s","volumeIDs":["b"]}`, &cloud.Server{ID: "t", VolumeIDs: []string{"a"}}, `{"serverID":"t","volumeIDs":["a","b"]}`},
		{"ports and floating IP stay while no others are known", `{"serverID":"s","portIDs":["p"],"floatingIPID":"f"}`, &cloud.Server{ID: "s", Zone: "z"},
			`{"serverID":"s","zone":"z","portIDs":["p"],"floatingIPID":"f"}`},
		{"a record that says the same is not written again", `{"zone":"z", "serverID":"s"}`, &cloud.Server{ID: "s", Zone: "z"}, `{"zone":"z", "serverID":"s"}`},
		{"a record that cannot be read is replaced", `"?"`, &cloud.Server{ID: "s"}, `{"serverID":"s"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := recording(tt.before)
			WriteServer(m, tt.server)
			if got := recorded(m); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("the last 16 volumes are kept", func(t *testing.T) {
		m := recording("")
		for i := range 2 * maxVolumes {
			WriteServer(m, &cloud.Server{ID: "s", VolumeIDs: []string{fmt.Sprintf("v%02d", i)}})
		}
		if got := Of(m).VolumeIDs; len(got) != maxVolumes || got[0] != "v16" {
			t.Errorf("got %v, want v16 to v31", got)
		}
	})
	t.Run("addresses are sorted, and stay while none are known", func(t *testing.T) {
		m := recording("")
		WriteServer(m, &cloud.Server{ID: "s", Addresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.2"}, {Type: "ExternalIP", Address: "192.0.2.1"}}})
		WriteServer(m, &cloud.Server{ID: "s"})
		want := []corev1.NodeAddress{{Type: "ExternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "10.0.0.2"}}
		if diff := cmp.Diff(want, m.Status.Addresses); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWritePlace(t *testing.T) {
	for _, tt := range []struct {
		name, before string
		cloud        cloud.Facts
		want         string
	}{
		{"a project that is not known yet is not recorded", "", cloud.Facts{Region: "r"}, ""},
		{"project and region are recorded (F-17)", "", cloud.Facts{ProjectID: "p", Region: "r"}, `{"projectID":"p","region":"r"}`},
		{"what is recorded of a server stays", `{"serverID":"s"}`, cloud.Facts{ProjectID: "p"}, `{"serverID":"s","projectID":"p"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := recording(tt.before)
			WritePlace(m, &tt.cloud)
			if got := recorded(m); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
