package v1alpha1_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheProviderSpecIsUnderstoodUnderBothNames(t *testing.T) {
	one := v1alpha1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"a":1}`)}}
	class := v1alpha1.ProviderSpec{ValueFrom: &v1alpha1.ProviderSpecSource{MachineClass: &v1alpha1.MachineClassRef{}}}
	for _, row := range []struct {
		name string
		spec v1alpha1.MachineSpec
		want v1alpha1.ProviderSpec
		err  error
	}{
		{"MC-3 the new name", v1alpha1.MachineSpec{ProviderSpec: one}, one, nil},
		{"MC-3 the old name", v1alpha1.MachineSpec{ProviderConfig: &one}, one, nil},
		{"MC-3 neither", v1alpha1.MachineSpec{}, v1alpha1.ProviderSpec{}, nil},
		{"MC-3 both", v1alpha1.MachineSpec{ProviderSpec: class, ProviderConfig: &one}, v1alpha1.ProviderSpec{}, v1alpha1.ErrBothSpellings},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.spec.Provider()
			if !errors.Is(err, row.err) || got != row.want {
				t.Errorf("it is %v and %v, want %v and %v", got, err, row.want, row.err)
			}
		})
	}
}

func TestAServerIsNamedAsItsMachineUnlessTheSpecSaysOtherwise(t *testing.T) {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	if got := m.ServerName(); got != "machine" {
		t.Errorf("without a name in the spec: %q", got)
	}
	m.Spec.Metadata.Name = "other"
	if got := m.ServerName(); got != "other" {
		t.Errorf("with a name in the spec: %q", got)
	}
}

func TestTheSchemeKnowsTheKinds(t *testing.T) {
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
