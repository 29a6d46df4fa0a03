package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestMayRegister(t *testing.T) {
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
		t.Run(key, func(t *testing.T) {
			if MayRegister(key) != want {
				t.Errorf("got %v", !want)
			}
		})
	}
}

func TestNodeLabels(t *testing.T) {
	t.Run("MC-55 the template's spec lies over its Machines' labels, less what only selects them", func(t *testing.T) {
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

func TestTheLabelOfTheOperatingSystem(t *testing.T) {
	const key = "v1.machine-controller.kubermatic.io/operating-system"
	for name, tc := range map[string]struct {
		value  string
		labels map[string]string
		want   map[string]string
	}{
		"it is the provider spec's (F-38)":                      {`{"operatingSystem": "flatcar"}`, nil, map[string]string{key: "flatcar"}},
		"machine-controller's own spelling of keys (F-38)":      {`{"OperatingSystem": "ubuntu"}`, nil, map[string]string{key: "ubuntu"}},
		"a label of the template has precedence (F-38)":         {`{"operatingSystem": "flatcar"}`, map[string]string{key: "mine"}, map[string]string{key: "mine"}},
		"a value that no label may have is left out (F-38)":     {`{"operatingSystem": "a b"}`, nil, map[string]string{}},
		"a provider spec without operating system (F-38)":       {`{}`, nil, map[string]string{}},
		"a provider spec that cannot be read (F-38)":            {`[]`, nil, map[string]string{}},
		"no provider spec, as with a MachineClass alone (F-38)": {"", nil, map[string]string{}},
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
				t.Errorf("the kubelet does not register with it:\n%s", diff)
			}
		})
	}
}

func TestKubeletSettings(t *testing.T) {
	t.Run("annotations lie over the defaults", func(t *testing.T) {
		s, err := Owners{}.KubeletSettings(map[string]string{
			annotationKubeletConfig + "KubeReserved": "cpu=100m,memory=1Gi", annotationKubeletConfig + "MaxPods": "60",
			annotationKubeletConfig + "EvictionHard": "memory.available<5%", annotationFeatureGates + "Foo": "true", "other": "x",
		})
		if err != nil || s.KubeReserved["memory"] != "1Gi" || s.SystemReserved["memory"] != "500Mi" || s.MaxPods != 60 || s.EvictionHard["memory.available"] != "5%" || !s.FeatureGates["Foo"] {
			t.Errorf("settings %+v, error %v", s, err)
		}
	})
	for name, tc := range map[string]struct {
		owners Owners
		own    map[string]string
		pods   int32
		memory string // reserved for kubelet and system
	}{
		"those of the MachineDeployment count (F-36)":                       {Owners{Deployment: deploymentWith("50")}, nil, 50, "300Mi 500Mi"},
		"the Machine's have precedence over its MachineDeployment's (F-36)": {Owners{Deployment: deploymentWith("50")}, map[string]string{annotationKubeletConfig + "MaxPods": "70"}, 70, "300Mi 500Mi"},
		"a MachineDeployment's count, not its MachineSet's copy (F-36)":     {Owners{Deployment: deploymentWith("50"), Set: setWith("40")}, nil, 50, "300Mi 500Mi"},
		"a MachineSet without a MachineDeployment has its own (F-36)":       {Owners{Set: setWith("40")}, nil, 40, "300Mi 500Mi"},
		"operating-system-manager's group has its defaults, and the MachineDeployment's annotations alone (F-36)": {Owners{Deployment: func() *v1alpha1.MachineDeployment {
			d := deploymentWith("50")
			d.Annotations[annotationProfile] = "osp-ubuntu"
			return d
		}()}, map[string]string{annotationKubeletConfig + "MaxPods": "70"}, 50, "200Mi 200Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := tc.owners.KubeletSettings(tc.own)
			if memory := s.KubeReserved["memory"] + " " + s.SystemReserved["memory"]; err != nil || s.MaxPods != tc.pods || memory != tc.memory {
				t.Errorf("%d pods and %s reserved, error %v", s.MaxPods, memory, err)
			}
		})
	}
	t.Run("an empty annotation means the default (F-40)", func(t *testing.T) {
		s, err := Owners{}.KubeletSettings(map[string]string{annotationKubeletConfig + "EvictionHard": "", annotationKubeletConfig + "MaxPods": ""})
		if diff := cmp.Diff(DefaultKubeletSettings(), s); err != nil || diff != "" {
			t.Errorf("error %v, settings:\n%s", err, diff)
		}
	})
	for name, value := range map[string]string{"KubeReserved": "cpu", "SystemReserved": "cpu=lots", "MaxPods": "many", "ContainerLogMaxFiles": "-1", "ImageMinimumGCAge": "5"} {
		t.Run("a bad "+name+" is an error that names it", func(t *testing.T) {
			if _, err := (Owners{}).KubeletSettings(map[string]string{annotationKubeletConfig + name: value}); err == nil {
				t.Error("no error")
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
