package bootstrap

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a Machine that set its kubelet; the names are machine-controller's.
const (
	annotationKubeletConfig = "v1.kubelet-config.machine-controller.kubermatic.io/"
	annotationFeatureGates  = "v1.kubelet-featuregates.machine-controller.kubermatic.io/"
)

// KubeletSettings are what a Machine's annotations may change about its kubelet.
type KubeletSettings struct {
	KubeReserved                map[string]string
	SystemReserved              map[string]string
	EvictionHard                map[string]string
	MaxPods                     int32
	ContainerLogMaxSize         string
	ContainerLogMaxFiles        *int32
	ImageGCHighThresholdPercent *int32
	ImageGCLowThresholdPercent  *int32
	ImageMinimumGCAge           metav1.Duration
	ImageMaximumGCAge           metav1.Duration
	FeatureGates                map[string]bool
}

// DefaultKubeletSettings are the settings of a Machine without annotations: 110 pods, 200m CPU, 300 MiB of memory and
// 1 GiB of disk for the kubelet and its runtime, 200m, 500 MiB and 1 GiB for the system, and the kubelet's own eviction
// thresholds.
func DefaultKubeletSettings() KubeletSettings {
	return KubeletSettings{
		KubeReserved:   map[string]string{"cpu": "200m", "memory": "300Mi", "ephemeral-storage": "1Gi"},
		SystemReserved: map[string]string{"cpu": "200m", "memory": "500Mi", "ephemeral-storage": "1Gi"},
		EvictionHard:   map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%"},
		MaxPods:        110,
	}
}

// ParseKubeletSettings reads a Machine's annotations over the defaults. Its error names the annotation.
func ParseKubeletSettings(annotations map[string]string) (KubeletSettings, error) {
	s := DefaultKubeletSettings()
	for key, value := range annotations {
		var err error
		if name, ok := strings.CutPrefix(key, annotationKubeletConfig); ok {
			err = s.set(name, value)
		} else if gate, ok := strings.CutPrefix(key, annotationFeatureGates); ok {
			err = s.setGate(gate, value)
		}
		if err != nil {
			return s, fmt.Errorf("annotation %s: %w", key, err)
		}
	}
	return s, nil
}

func (s *KubeletSettings) setGate(gate, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", value)
	}
	if s.FeatureGates == nil {
		s.FeatureGates = map[string]bool{}
	}
	s.FeatureGates[gate] = on
	return nil
}

// set reads one setting. Unknown names are left alone: a newer writer may know them.
func (s *KubeletSettings) set(name, value string) (err error) {
	switch name {
	case "KubeReserved":
		s.KubeReserved, err = quantities(value)
	case "SystemReserved":
		s.SystemReserved, err = quantities(value)
	case "EvictionHard":
		s.EvictionHard, err = pairs(value)
	case "MaxPods":
		var n *int32
		if n, err = number(value); err == nil {
			s.MaxPods = *n
		}
	case "ContainerLogMaxSize":
		s.ContainerLogMaxSize = value
		_, err = resource.ParseQuantity(value)
	case "ContainerLogMaxFiles":
		s.ContainerLogMaxFiles, err = number(value)
	case "ImageGCHighThresholdPercent":
		s.ImageGCHighThresholdPercent, err = number(value)
	case "ImageGCLowThresholdPercent":
		s.ImageGCLowThresholdPercent, err = number(value)
	case "ImageMinimumGCAge":
		s.ImageMinimumGCAge, err = duration(value)
	case "ImageMaximumGCAge":
		s.ImageMaximumGCAge, err = duration(value)
	}
	return err
}

func number(value string) (*int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n <= 0 {
		return nil, fmt.Errorf("%q is no positive whole number", value)
	}
	out := int32(n)
	return &out, nil
}

func duration(value string) (metav1.Duration, error) {
	var d metav1.Duration
	quoted, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(quoted, &d)
	}
	return d, err
}

// pairs reads key=value or key<value, separated by commas (the form of the kubelet's flags).
func pairs(value string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range strings.Split(value, ",") {
		i := strings.IndexAny(p, "=<")
		if i <= 0 {
			return nil, fmt.Errorf("%q is not of the form name=value", p)
		}
		out[strings.TrimSpace(p[:i])] = strings.TrimSpace(p[i+1:])
	}
	return out, nil
}

func quantities(value string) (map[string]string, error) {
	out, err := pairs(value)
	if err != nil {
		return nil, err
	}
	for name, q := range out {
		if _, err := resource.ParseQuantity(q); err != nil {
			return nil, fmt.Errorf("%s=%s is no quantity such as 200m or 1Gi", name, q)
		}
	}
	return out, nil
}
