package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// kubeletConfig returns the content of the kubelet's configuration file.
func (in *Input) kubeletConfig() ([]byte, error) {
	s := in.Kubelet
	c := kubelet.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Authentication: kubelet.KubeletAuthentication{
			Anonymous: kubelet.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
			Webhook:   kubelet.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
			X509:      kubelet.KubeletX509Authentication{ClientCAFile: pathCA},
		},
		Authorization:               kubelet.KubeletAuthorization{Mode: kubelet.KubeletAuthorizationModeWebhook},
		CgroupDriver:                "systemd",
		ClusterDNS:                  in.ClusterDNS,
		ClusterDomain:               in.ClusterDomain,
		ContainerRuntimeEndpoint:    "unix:///run/containerd/containerd.sock",
		EvictionHard:                s.EvictionHard,
		FeatureGates:                in.Kubelet.FeatureGates,
		KubeReserved:                s.KubeReserved,
		SystemReserved:              s.SystemReserved,
		MaxPods:                     s.MaxPods,
		ContainerLogMaxSize:         s.ContainerLogMaxSize,
		ContainerLogMaxFiles:        s.ContainerLogMaxFiles,
		ImageGCHighThresholdPercent: s.ImageGCHighThresholdPercent,
		ImageGCLowThresholdPercent:  s.ImageGCLowThresholdPercent,
		ImageMinimumGCAge:           s.ImageMinimumGCAge,
		ImageMaximumGCAge:           s.ImageMaximumGCAge,
		RegisterWithTaints:          in.Taints,
		// The kubelet pulls up to 10 images at the same time, so that one slow image does not block the others. More than 10 would compete for
		// disk and network.
		SerializeImagePulls:   ptr.To(false),
		MaxParallelImagePulls: ptr.To[int32](10),
		VolumePluginDir:       in.volumePluginDir(),
		// Pods use the DNS servers in this file. The setup links it to the file that the image has for that. The stub resolver in
		// /etc/resolv.conf of many images, 127.0.0.53, does not work inside a pod.
		ResolverConfig:     ptr.To("/run/drover/resolv.conf"),
		RotateCertificates: true,
		ServerTLSBootstrap: true,
		StaticPodPath:      "/etc/kubernetes/manifests",
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return remembered(string(raw), func() ([]byte, error) {
		value, err := fieldsOf(raw)
		if err != nil {
			return nil, err
		}
		fields, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("a KubeletConfiguration became a %T", value)
		}
		delete(fields, "logging")
		return encode(prune(fields))
	})
}

// volumePluginDir returns the directory in which the kubelet looks for FlexVolume plugins. Empty means the kubelet's default, which is
// below /usr. On Flatcar, /usr is read-only.
func (in *Input) volumePluginDir() string {
	if in.Provider.OperatingSystem == "flatcar" {
		return "/var/lib/kubelet/volumeplugins"
	}
	return ""
}

// prune removes null values, empty objects, and durations of zero, which the kubelet reads as its default. The Go type of the
// configuration writes such values because it cannot omit them.
func prune(fields map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			value = prune(inner)
			if len(value.(map[string]any)) == 0 {
				continue
			}
		}
		if value == nil || value == "0s" {
			continue
		}
		out[key] = value
	}
	return out
}

// bootstrapKubeconfig returns the kubeconfig with which the kubelet requests its first certificate.
func (in *Input) bootstrapKubeconfig() ([]byte, error) {
	return toYAML(clientcmd.Config{
		APIVersion: "v1", Kind: "Config",
		Clusters:       []clientcmd.NamedCluster{{Name: "cluster", Cluster: clientcmd.Cluster{Server: in.Server, CertificateAuthority: pathCA}}},
		AuthInfos:      []clientcmd.NamedAuthInfo{{Name: "bootstrap", AuthInfo: clientcmd.AuthInfo{Token: in.Token.String()}}},
		Contexts:       []clientcmd.NamedContext{{Name: "bootstrap", Context: clientcmd.Context{Cluster: "cluster", AuthInfo: "bootstrap"}}},
		CurrentContext: "bootstrap",
	})
}

// kubeletArgs returns the kubelet's flags for settings that its configuration file cannot contain.
func (in *Input) kubeletArgs() string {
	args := []string{"--hostname-override=" + in.Name}
	if in.Kubelet.ExternalCloudProvider {
		args = append(args, "--cloud-provider=external")
	}
	if in.prefersIPv6() {
		args = append(args, "--node-ip=::")
	}
	labels := RegistrationLabels(in.Labels)
	if len(labels) > 0 {
		var list []string
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			list = append(list, key+"="+labels[key])
		}
		args = append(args, "--node-labels="+strings.Join(list, ","))
	}
	return assign("KUBELET_EXTRA_ARGS", strings.Join(args, " "))
}

// registrationTaints returns the taints of the spec and the startup taint, without duplicates.
func registrationTaints(spec []corev1.Taint, startup string) []corev1.Taint {
	out := make([]corev1.Taint, 0, len(spec)+1)
	for _, t := range spec {
		t.TimeAdded = nil
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if startup == "" || slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.Key == startup && t.Effect == corev1.TaintEffectNoSchedule }) {
		return out
	}
	return append(out, corev1.Taint{Key: startup, Effect: corev1.TaintEffectNoSchedule})
}
