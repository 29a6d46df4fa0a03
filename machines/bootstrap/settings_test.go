package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestKubeletSettingsComeFromTheAnnotationsOfAMachineAndItsOwners(t *testing.T) {
	t.Run("the Machine's annotations override the default settings", func(t *testing.T) {
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
		memory string // the memory reserved for the kubelet, a space, and the memory reserved for the system
	}{
		"the annotations of the MachineDeployment are used when the Machine has none (F-36)":         {Owners{Deployment: deploymentWith("50")}, nil, 50, "300Mi 500Mi"},
		"the Machine's annotations take precedence over those of its MachineDeployment (F-36)":       {Owners{Deployment: deploymentWith("50")}, map[string]string{annotationKubeletConfig + "MaxPods": "70"}, 70, "300Mi 500Mi"},
		"the annotations of the MachineDeployment are used, not the copies in its MachineSet (F-36)": {Owners{Deployment: deploymentWith("50"), Set: setWith("40")}, nil, 50, "300Mi 500Mi"},
		"the annotations of a MachineSet without a MachineDeployment are used (F-36)":                {Owners{Set: setWith("40")}, nil, 40, "300Mi 500Mi"},
		"the Machine's annotations are ignored when its deployment has a profile of operating-system-manager (F-36)": {Owners{Deployment: func() *v1alpha1.MachineDeployment {
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
	t.Run("an empty annotation stands for the default setting (F-40, F-128)", func(t *testing.T) {
		s, err := Owners{}.KubeletSettings(map[string]string{
			annotationKubeletConfig + "EvictionHard": "", annotationKubeletConfig + "MaxPods": "", annotationKubeletConfig + "KubeReserved": " , ",
			annotationFeatureGates + "Foo": "", AnnotationExternalCloudProvider: "",
		})
		if diff := cmp.Diff(DefaultKubeletSettings(), s); err != nil || diff != "" {
			t.Errorf("error %v, settings:\n%s", err, diff)
		}
	})
	t.Run("empty entries of a list are skipped (F-128)", func(t *testing.T) {
		s, err := Owners{}.KubeletSettings(map[string]string{annotationKubeletConfig + "KubeReserved": "cpu=100m,,memory=1Gi,"})
		if diff := cmp.Diff(map[string]string{"cpu": "100m", "memory": "1Gi"}, s.KubeReserved); err != nil || diff != "" {
			t.Errorf("error %v, settings:\n%s", err, diff)
		}
	})
	for name, value := range map[string]string{"KubeReserved": "cpu", "SystemReserved": "cpu=lots", "MaxPods": "many", "ContainerLogMaxFiles": "-1", "ImageMinimumGCAge": "5"} {
		t.Run("an invalid value of the annotation "+name+" is an error", func(t *testing.T) {
			if _, err := (Owners{}).KubeletSettings(map[string]string{annotationKubeletConfig + name: value}); err == nil {
				t.Error("no error")
			}
		})
	}
}
