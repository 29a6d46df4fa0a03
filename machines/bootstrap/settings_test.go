package bootstrap

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestKubeletSettingsComeFromTheAnnotationsOfAMachineAndItsOwners(t *testing.T) {
	t.Run("the Machine's annotations override the default settings", func(t *testing.T) {
		s := Owners{}.KubeletSettings(map[string]string{
			annotationKubeletConfig + "KubeReserved": "cpu=100m,memory=1Gi", annotationKubeletConfig + "MaxPods": "60",
			annotationKubeletConfig + "EvictionHard": "memory.available<5%", annotationFeatureGates + "Foo": "true", "other": "x",
		})
		if len(s.Ignored) > 0 || s.KubeReserved["memory"] != "1Gi" || s.SystemReserved["memory"] != "500Mi" || s.MaxPods != 60 || s.EvictionHard["memory.available"] != "5%" || !s.FeatureGates["Foo"] {
			t.Errorf("settings %+v", s)
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
			s := tc.owners.KubeletSettings(tc.own)
			if memory := s.KubeReserved["memory"] + " " + s.SystemReserved["memory"]; s.MaxPods != tc.pods || memory != tc.memory {
				t.Errorf("%d pods and %s reserved", s.MaxPods, memory)
			}
		})
	}
	t.Run("an empty annotation stands for the default setting (F-40, F-128)", func(t *testing.T) {
		s := Owners{}.KubeletSettings(map[string]string{
			annotationKubeletConfig + "EvictionHard": "", annotationKubeletConfig + "MaxPods": "", annotationKubeletConfig + "KubeReserved": " , ",
			annotationFeatureGates + "Foo": "", AnnotationExternalCloudProvider: "",
		})
		if diff := cmp.Diff(DefaultKubeletSettings(), s); diff != "" {
			t.Errorf("settings:\n%s", diff)
		}
	})
	t.Run("empty entries of a list are skipped (F-128)", func(t *testing.T) {
		s := Owners{}.KubeletSettings(map[string]string{annotationKubeletConfig + "KubeReserved": "cpu=100m,,memory=1Gi,"})
		if diff := cmp.Diff(map[string]string{"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi"}, s.KubeReserved); diff != "" {
			t.Errorf("settings:\n%s", diff)
		}
	})
	for name, value := range map[string]string{
		"KubeReserved": "cpu", "SystemReserved": "cpu=lots", "MaxPods": "many", "ContainerLogMaxFiles": "-1", "ImageMinimumGCAge": "5",
		"ImageGCLowThresholdPercent": "90", "ImageMaximumGCAge": "1m",
	} {
		t.Run("a value of the annotation "+name+" that a kubelet would refuse costs only its setting, and is named (F-128)", func(t *testing.T) {
			s := Owners{}.KubeletSettings(map[string]string{annotationKubeletConfig + name: value, annotationFeatureGates + "Foo": "true"})
			if len(s.Ignored) != 1 || !strings.HasPrefix(s.Ignored[0], "annotation "+annotationKubeletConfig+name+": has no effect: ") {
				t.Errorf("named %q", s.Ignored)
			}
			want := DefaultKubeletSettings()
			want.FeatureGates, want.Ignored = map[string]bool{"Foo": true}, s.Ignored
			if diff := cmp.Diff(want, s); diff != "" {
				t.Errorf("settings:\n%s", diff)
			}
		})
	}
}

// kubeletThresholds are the eviction thresholds of a kubelet whose configuration names none (DefaultEvictionHard in its source).
var kubeletThresholds = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

func TestAnAnnotationAboutOneOfSeveralValuesKeepsTheOthers(t *testing.T) {
	annotations := map[string]string{
		annotationKubeletConfig + "EvictionHard": "memory.available<500Mi", annotationKubeletConfig + "KubeReserved": "memory=1Gi", annotationKubeletConfig + "SystemReserved": "pid=1000",
	}
	managed := deploymentWith("50")
	managed.Annotations = map[string]string{annotationProfile: "osp-ubuntu"}
	maps.Copy(managed.Annotations, annotations)
	for name, tc := range map[string]struct {
		owners                  Owners
		own                     map[string]string
		eviction, kubelet, host map[string]string
	}{
		"a kubelet without annotations has all five of a kubelet's own eviction thresholds (F-157)": {
			Owners{}, nil,
			kubeletThresholds, map[string]string{"cpu": "200m", "memory": "300Mi", "ephemeral-storage": "1Gi"}, map[string]string{"cpu": "200m", "memory": "500Mi", "ephemeral-storage": "1Gi"},
		},
		"an annotation with one threshold or reservation keeps the other ones (F-157)": {
			Owners{}, annotations,
			merged(kubeletThresholds, map[string]string{"memory.available": "500Mi"}), map[string]string{"cpu": "200m", "memory": "1Gi", "ephemeral-storage": "1Gi"}, map[string]string{"cpu": "200m", "memory": "500Mi", "ephemeral-storage": "1Gi", "pid": "1000"},
		},
		"an annotation switches a threshold off with 0% (F-157)": {
			Owners{}, map[string]string{annotationKubeletConfig + "EvictionHard": "nodefs.available<0%"},
			merged(kubeletThresholds, map[string]string{"nodefs.available": "0%"}), DefaultKubeletSettings().KubeReserved, DefaultKubeletSettings().SystemReserved,
		},
		"operating-system-manager replaces all values of an annotation (F-157)": {
			Owners{Deployment: managed}, nil,
			map[string]string{"memory.available": "500Mi"}, map[string]string{"memory": "1Gi"}, map[string]string{"pid": "1000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.owners.KubeletSettings(tc.own)
			if diff := cmp.Diff([]map[string]string{tc.eviction, tc.kubelet, tc.host}, []map[string]string{s.EvictionHard, s.KubeReserved, s.SystemReserved}); diff != "" || len(s.Ignored) > 0 {
				t.Errorf("ignored %q, settings:\n%s", s.Ignored, diff)
			}
		})
	}
}
