package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestAKubeletRegistersOnlyLabelsThatNodeRestrictionAllows(t *testing.T) {
	tests := map[string]bool{
		"team":                                true,
		"example.com/team":                    true,
		"machine-controller/owned-by":         true,
		"kubernetes.io/hostname":              true,
		"kubernetes.io/arch":                  true,
		"topology.kubernetes.io/zone":         true,
		"node.kubernetes.io/instance-type":    true,
		"node.kubernetes.io/anything":         true,
		"kubelet.kubernetes.io/anything":      true,
		"node-role.kubernetes.io/worker":      false,
		"node-restriction.kubernetes.io/team": false,
		"cluster.k8s.io/cluster-name":         false,
		"example.kubernetes.io/x":             false,
		"k8s.io/x":                            false,
		"notkubernetes.io/x":                  true,
	}
	for key, want := range tests {
		t.Run("the label "+key+" is "+map[bool]string{true: "registered", false: "not registered"}[want], func(t *testing.T) {
			if MayRegister(key) != want {
				t.Errorf("got %v", !want)
			}
		})
	}
}

func TestTheLabelsOfANodeComeFromItsMachine(t *testing.T) {
	t.Run("a Node gets all labels in its Machine's spec.metadata, and the Machine's own labels that its set's selector does not use (MC-55)", func(t *testing.T) {
		spec := &v1alpha1.MachineSpec{}
		spec.Metadata.Labels = map[string]string{"team": "blue", "group": "kept"}
		got := NodeLabels(
			spec,
			map[string]string{"team": "red", "group": "nodes", "tier": "1", v1alpha1.LabelTemplateHash: "x", "env": "prod"},
			&metav1.LabelSelector{MatchLabels: map[string]string{"group": "nodes"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}},
		)
		if diff := cmp.Diff(map[string]string{"team": "blue", "group": "kept", "env": "prod"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNodesHaveTheLabelOfTheirOperatingSystem(t *testing.T) {
	const key = "v1.machine-controller.kubermatic.io/operating-system"
	for name, tc := range map[string]struct {
		value  string
		labels map[string]string
		want   map[string]string
	}{
		"the label names the operating system of the provider spec (F-38)":                                        {`{"operatingSystem": "flatcar"}`, nil, map[string]string{key: "flatcar"}},
		"the label is set when the provider spec writes the key as OperatingSystem, with a capital letter (F-38)": {`{"OperatingSystem": "ubuntu"}`, nil, map[string]string{key: "ubuntu"}},
		"a label with the same key in the Machine's spec takes precedence over the provider spec (F-38)":          {`{"operatingSystem": "flatcar"}`, map[string]string{key: "mine"}, map[string]string{key: "mine"}},
		"the label is left out when the operating system is not a valid label value (F-38)":                       {`{"operatingSystem": "a b"}`, nil, map[string]string{}},
		"the label is missing when the provider spec names no operating system (F-38)":                            {`{}`, nil, map[string]string{}},
		"the label is missing when the provider spec is unreadable (F-38)":                                        {`[]`, nil, map[string]string{}},
		"the label is missing when the Machine's spec has no providerSpec.value (F-38)":                           {"", nil, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.MachineSpec{}
			spec.Metadata.Labels = tc.labels
			if tc.value != "" {
				spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(tc.value)}
			}
			got := NodeLabels(spec, nil, nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(got, RegistrationLabels(got)); diff != "" {
				t.Errorf("the kubelet does not register with these labels:\n%s", diff)
			}
		})
	}
}

func deploymentWith(maxPods string) *v1alpha1.MachineDeployment {
	return &v1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationKubeletConfig + "MaxPods": maxPods}}}
}

func setWith(maxPods string) *v1alpha1.MachineSet {
	return &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationKubeletConfig + "MaxPods": maxPods}}}
}
