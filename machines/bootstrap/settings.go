package bootstrap

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// Annotations of a Machine, its MachineDeployment or its MachineSet that configure the kubelet. machine-controller uses the same names.
const (
	annotationKubeletConfig = "v1.kubelet-config.machine-controller.kubermatic.io/"
	annotationFeatureGates  = "v1.kubelet-featuregates.machine-controller.kubermatic.io/"
	annotationKubeletFlags  = "v1.kubelet-flags.machine-controller.kubermatic.io/"
)

// AnnotationExternalCloudProvider is an annotation of a Machine. With "false" the Machine's kubelet runs without
// --cloud-provider=external; clusters without a cloud-controller-manager need that. Default: "true".
const AnnotationExternalCloudProvider = annotationKubeletFlags + "ExternalCloudProvider"

// KubeletSettings holds the settings of a kubelet that annotations may change.
type KubeletSettings struct {
	// KubeletConfiguration has only the fields that annotations may change.
	kubelet.KubeletConfiguration
	// ExternalCloudProvider is true when a cloud-controller-manager initialises the node.
	ExternalCloudProvider bool

	// Ignored names the annotations whose values a kubelet would refuse, one sentence each. Their settings are the default ones.
	Ignored []string
}

// DefaultKubeletSettings returns the settings of a Machine without annotations: 110 pods; 200m CPU, 300 MiB of memory and 1 GiB of disk
// reserved for the kubelet and its runtime; 200m CPU, 500 MiB of memory and 1 GiB of disk reserved for the system; the kubelet's own
// eviction thresholds; and for each container up to 5 log files of 100 MiB.
func DefaultKubeletSettings() KubeletSettings {
	return KubeletSettings{ExternalCloudProvider: true, KubeletConfiguration: kubelet.KubeletConfiguration{
		KubeReserved:   map[string]string{"cpu": "200m", "memory": "300Mi", "ephemeral-storage": "1Gi"},
		SystemReserved: map[string]string{"cpu": "200m", "memory": "500Mi", "ephemeral-storage": "1Gi"},
		// A kubelet whose configuration names one threshold has none of its defaults, so all five of them are here.
		EvictionHard: map[string]string{
			"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
		},
		MaxPods: 110,

		ContainerLogMaxSize: "100Mi",
	}}
}

// KubeletSettings returns the kubelet settings of a Machine that is created now. own holds the annotations of the Machine, or of its
// template. They take precedence over the annotations of its MachineDeployment, or of its MachineSet when there is no MachineDeployment.
// An annotation about several resources or thresholds changes those that it names, as in machine-controller (F-157).
// operating-system-manager reads only the annotations of the MachineDeployment, replaces all defaults of a setting with the annotation's
// values, and has its own defaults, so for its groups the settings are computed in this way. A value that a kubelet would refuse costs only
// its setting, as in machine-controller (F-128).
func (o Owners) KubeletSettings(own map[string]string) KubeletSettings {
	if ManagedByOSM(o.Deployment) {
		return defaultsOSM().with(o.Deployment.Annotations, replaced).withoutContradictions()
	}
	all := map[string]string{}
	switch {
	case o.Deployment != nil:
		maps.Copy(all, o.Deployment.Annotations)
	case o.Set != nil:
		maps.Copy(all, o.Set.Annotations)
	}
	maps.Copy(all, own)
	return DefaultKubeletSettings().with(all, merged).withoutContradictions()
}

// IgnoredAnnotations names the kubelet annotations among own whose values a kubelet would refuse, whatever other annotations say.
func IgnoredAnnotations(own map[string]string) []string {
	return DefaultKubeletSettings().with(own, merged).Ignored
}

// defaultsOSM returns the settings of the kubelets that operating-system-manager's profiles configure: 200m CPU, 200 MiB of memory and
// 1 GiB of disk reserved for the kubelet, and the same for the system; four eviction thresholds. The number of pods is drover's default.
func defaultsOSM() KubeletSettings {
	s := DefaultKubeletSettings()
	s.KubeReserved = map[string]string{"cpu": "200m", "memory": "200Mi", "ephemeral-storage": "1Gi"}
	s.SystemReserved = maps.Clone(s.KubeReserved)
	delete(s.EvictionHard, "imagefs.inodesFree")
	return s
}

// ReservesByDefault reports whether the kubelet's reservations and eviction thresholds are default values: those of drover's
// user data, or those of operating-system-manager's, without annotations.
func (s KubeletSettings) ReservesByDefault() bool {
	return slices.ContainsFunc([]KubeletSettings{DefaultKubeletSettings(), defaultsOSM()}, func(d KubeletSettings) bool {
		return maps.Equal(s.KubeReserved, d.KubeReserved) && maps.Equal(s.SystemReserved, d.SystemReserved) && maps.Equal(s.EvictionHard, d.EvictionHard)
	})
}

// combine returns the values of a setting from its default values and those of its annotation.
type combine func(defaults, given map[string]string) map[string]string

// merged returns the given values, and the default values of what is not given.
func merged(defaults, given map[string]string) map[string]string {
	out := maps.Clone(defaults)
	maps.Copy(out, given)
	return out
}

// replaced returns only the given values.
func replaced(_, given map[string]string) map[string]string { return given }

// with returns the settings with the annotations applied. An empty value means the default, because KubeOne writes an empty EvictionHard.
func (s KubeletSettings) with(annotations map[string]string, several combine) KubeletSettings {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		if strings.Trim(value, " ,") == "" {
			continue
		}
		var err error
		was := s
		if name, ok := strings.CutPrefix(key, annotationKubeletConfig); ok {
			err = s.set(name, value, several)
		} else if gate, ok := strings.CutPrefix(key, annotationFeatureGates); ok {
			gates := map[string]bool{}
			gates[gate], err = boolean(value)
			maps.Copy(gates, s.FeatureGates)
			s.FeatureGates = gates
		} else if key == AnnotationExternalCloudProvider {
			s.ExternalCloudProvider, err = boolean(value)
		}
		if err != nil {
			s = was
			s.ignore(key, err)
		}
	}
	return s
}

func (s *KubeletSettings) ignore(key string, why error) {
	s.Ignored = append(s.Ignored, fmt.Sprintf("annotation %s: has no effect: %v", key, why))
}

// withoutContradictions returns the settings with the kubelet's defaults in place of two that contradict each other, because a kubelet would
// not start with these.
func (s KubeletSettings) withoutContradictions() KubeletSettings {
	high, low := ptr.Deref(s.ImageGCHighThresholdPercent, 85), ptr.Deref(s.ImageGCLowThresholdPercent, 80)
	if low >= high {
		s.ImageGCHighThresholdPercent, s.ImageGCLowThresholdPercent = nil, nil
		s.ignore(annotationKubeletConfig+"ImageGCLowThresholdPercent", fmt.Errorf("%d%% is not below the high threshold of %d%%", low, high))
	}
	most, least := s.ImageMaximumGCAge.Duration, cmp.Or(s.ImageMinimumGCAge.Duration, 2*time.Minute)
	if most != 0 && most <= least {
		s.ignore(annotationKubeletConfig+"ImageMaximumGCAge", fmt.Errorf("%v is not above the minimum age of %v", most, least))
		s.ImageMaximumGCAge = metav1.Duration{}
	}
	return s
}

func boolean(value string) (bool, error) {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", value)
	}
	return on, nil
}

// set parses one setting. It ignores an unknown name, because the annotation may be for a newer release.
func (s *KubeletSettings) set(name, value string, several combine) (err error) {
	var given map[string]string
	switch name {
	case "KubeReserved":
		given, err = pairs(value, reservable, checkReserved)
		s.KubeReserved = several(s.KubeReserved, given)
	case "SystemReserved":
		given, err = pairs(value, reservable, checkReserved)
		s.SystemReserved = several(s.SystemReserved, given)
	case "EvictionHard":
		given, err = pairs(value, signals, checkThreshold)
		s.EvictionHard = several(s.EvictionHard, given)
	case "MaxPods":
		var n *int32
		if n, err = number(value, 1, math.MaxInt32); err == nil {
			s.MaxPods = *n
		}
	case "ContainerLogMaxSize":
		s.ContainerLogMaxSize = value
		err = positive(value)
	case "ContainerLogMaxFiles":
		s.ContainerLogMaxFiles, err = number(value, 2, math.MaxInt32)
	case "ImageGCHighThresholdPercent":
		s.ImageGCHighThresholdPercent, err = number(value, 0, 100)
	case "ImageGCLowThresholdPercent":
		s.ImageGCLowThresholdPercent, err = number(value, 0, 100)
	case "ImageMinimumGCAge":
		s.ImageMinimumGCAge, err = duration(value)
	case "ImageMaximumGCAge":
		s.ImageMaximumGCAge, err = duration(value)
	}
	return err
}
