package spec

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/client"
)

// objectOf returns the input of the Reader for a Machine with this cloudProviderSpec.
func objectOf(document string) Object {
	raw := []byte(`{"cloudProvider":"openstack","operatingSystem":"ubuntu","cloudProviderSpec":` + document + `}`)
	return Object{Name: "Machine n/m", Namespace: "n", Spec: &v1alpha1.MachineSpec{ProviderSpec: v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: raw}}}}
}

func TestReaderOfMachineSpecs(t *testing.T) {
	options := Options{
		Configured:        client.Credentials{IdentityEndpoint: "https://k:5000/v3", Username: "u", Password: "p", ProjectName: "x"},
		SharedServerGroup: true, ReservedTags: []string{"ours"},
	}
	read := func(t *testing.T, o Object) *Sources {
		t.Helper()
		s, err := NewReader(options).Read(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("adds the shared server group to a spec without a server group when the option SharedServerGroup is set", func(t *testing.T) {
		got, err := read(t, objectOf(`{`+least+`}`)).Spec()
		if err != nil || got.ServerGroup != SharedServerGroup {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("keeps the server group that the spec names", func(t *testing.T) {
		got, err := read(t, objectOf(`{`+least+`,"serverGroup":"g"}`)).Spec()
		if err != nil || got.ServerGroup != "g" || got.ServerGroupField != "serverGroup" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	for name, tags := range map[string]string{"refuses a tag whose key is reserved for drover when tags are a map": `{"ours":"x"}`, "refuses a tag whose key is reserved for drover when tags are a list": `["ours=x"]`} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, objectOf(`{`+least+`,"tags":`+tags+`}`)).Spec()
			if want := "Machine n/m: spec.providerSpec.value.cloudProviderSpec.tags: the key ours is reserved for drover; remove it"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	t.Run("refuses a provider spec above 64 KiB, and reads that of a Machine with a server (F-96)", func(t *testing.T) {
		o := objectOf(`{` + least + `,"image":"` + strings.Repeat("x", 70<<10) + `"}`)
		_, err := NewReader(options).Read(t.Context(), o)
		if want := "Machine n/m: spec.providerSpec.value: more than 65536 bytes: move long values into a Secret or ConfigMap, and refer to them"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
		o.Lenient, o.HasServer = true, true
		read(t, o)
	})
	t.Run("names the Machine, then the configured cloud, as the origin of the password when the Machine's spec has no password", func(t *testing.T) {
		got, err := read(t, objectOf(`{`+least+`}`)).Access()
		if want := "Machine n/m: the configured cloud: password"; err != nil || got.Origin != want {
			t.Errorf("got %+v, %v, want the origin %q", got, err, want)
		}
	})
	t.Run("returns one warning for each field that has no effect, sorted by the names of the fields", func(t *testing.T) {
		o := objectOf(`{` + least + `,"trustDevicePath":true,"insecure":true}`)
		got := read(t, o).Warnings()
		if len(got) != 2 || !strings.Contains(got[0], ".insecure: has no effect") || !strings.Contains(got[1], ".trustDevicePath: has no effect") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("returns no warning for the empty and null fields that machine-controller's webhook writes (F-105, F-119)", func(t *testing.T) {
		o := objectOf(`{` + least + `,"trustDevicePath":null,"nodeVolumeAttachLimit":null,"instanceReadyCheckPeriod":"","instanceReadyCheckTimeout":"","insecure":false}`)
		if got := read(t, o).Warnings(); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
	t.Run("refuses a provider spec that is not a JSON object when its Machine never had a server", func(t *testing.T) {
		if _, err := read(t, objectOf(`[]`)).Spec(); err == nil {
			t.Error("it was read")
		}
	})
	t.Run("accepts a provider spec that is not a JSON object once its Machine has had a server, so that the server can be deleted", func(t *testing.T) {
		o := objectOf(`[]`)
		o.Lenient = true
		if s := read(t, o); s.Unreadable == nil {
			t.Error("it is not remembered")
		}
	})
}
