package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheProviderSpecIsReadFromProviderSpecOrProviderConfig(t *testing.T) {
	one := v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}}
	class := v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{}}}
	for _, row := range []struct {
		name string
		spec v1alpha1.MachineSpec
		want v1alpha1.ProviderSpec
		err  error
	}{
		{"reads the field with the new name providerSpec (MC-3)", v1alpha1.MachineSpec{ProviderSpec: one}, one, nil},
		{"reads the field with the old name providerConfig (MC-3)", v1alpha1.MachineSpec{ProviderConfig: &one}, one, nil},
		{"reads an empty provider spec when neither providerSpec nor providerConfig is set (MC-3)", v1alpha1.MachineSpec{}, v1alpha1.ProviderSpec{}, nil},
		{"refuses a spec that sets both providerSpec and providerConfig (MC-3)", v1alpha1.MachineSpec{ProviderSpec: class, ProviderConfig: &one}, v1alpha1.ProviderSpec{}, v1alpha1.ErrBothSpellings},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.spec.Provider()
			if !errors.Is(err, row.err) || got != row.want {
				t.Errorf("Provider() = %v, %v; want %v, %v", got, err, row.want, row.err)
			}
		})
	}
}

func TestTheServerNameDefaultsToTheMachinesName(t *testing.T) {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	if got := m.ServerName(); got != "machine" {
		t.Errorf("ServerName() without a name in the spec = %q", got)
	}
	m.Spec.Metadata.Name = "other"
	if got := m.ServerName(); got != "other" {
		t.Errorf("ServerName() with a name in the spec = %q", got)
	}
}

func TestTheSchemeContainsEveryKindOfDroversAPIAndItsListKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment", "MachineClass", "Cluster"} {
		for _, k := range []string{kind, kind + "List"} {
			if _, err := scheme.New(v1alpha1.GroupVersion.WithKind(k)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDecodingAndEncodingASpecChangesNothing(t *testing.T) {
	const provider = `{"cloudProvider":"openstack","operatingSystem":"ubuntu","operatingSystemSpec":{},"network":null,"cloudProviderSpec":{"flavor":"m1.small","tags":{"z":"1","a":""},"image":"","subnet":null,"novel":[1,2.50]}}`
	template := `{"metadata":{"labels":{"a":"b"}},"spec":{"providerSpec":{"value":` + provider + `},"versions":{"kubelet":"1.30.3"}}}`
	for kind, document := range map[string]string{
		"Machine":           `{"metadata":{"name":"m"},"spec":{"metadata":{"labels":{"a":"b"}},"providerSpec":{"value":` + provider + `},"versions":{"kubelet":"1.30.3"}}}`,
		"MachineSet":        `{"metadata":{"name":"m"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + template + `}}`,
		"MachineDeployment": `{"metadata":{"name":"m"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + template + `}}`,
	} {
		t.Run("the spec of a "+kind+" keeps every field, and the provider spec keeps its exact text (MC-13)", func(t *testing.T) {
			typed := map[string]any{"Machine": &v1alpha1.Machine{}, "MachineSet": &v1alpha1.MachineSet{}, "MachineDeployment": &v1alpha1.MachineDeployment{}}[kind]
			if err := json.Unmarshal([]byte(document), typed); err != nil {
				t.Fatal(err)
			}
			written, err := json.Marshal(typed)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(written), provider) {
				t.Errorf("the provider spec has changed: %s", written)
			}
			var was, is map[string]any
			if err := errors.Join(json.Unmarshal([]byte(document), &was), json.Unmarshal(written, &is)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(was["spec"], is["spec"]) {
				t.Errorf("written %s", written)
			}
		})
	}
}
