package bootstrap

import (
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
	c := in.Kubelet.KubeletConfiguration
	c.TypeMeta = metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"}
	c.Authentication = kubelet.KubeletAuthentication{
		Anonymous: kubelet.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
		Webhook:   kubelet.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
		X509:      kubelet.KubeletX509Authentication{ClientCAFile: pathCA},
	}
	c.Authorization = kubelet.KubeletAuthorization{Mode: kubelet.KubeletAuthorizationModeWebhook}
	c.CgroupDriver = "systemd"
	c.ClusterDNS, c.ClusterDomain = in.ClusterDNS, in.ClusterDomain
	c.ContainerRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
	c.RegisterWithTaints = in.Taints
	// The kubelet pulls up to 10 images at the same time, so that one slow image does not block the others. More than 10 would compete for
	// disk and network.
	c.SerializeImagePulls, c.MaxParallelImagePulls = ptr.To(false), ptr.To[int32](10)
	if in.Provider.OperatingSystem == "flatcar" {
		// The kubelet's default for FlexVolume plugins is below /usr, which is read-only on Flatcar.
		c.VolumePluginDir = "/var/lib/kubelet/volumeplugins"
	}
	// Pods use the DNS servers in this file. The setup links it to the file that the image has for that. The stub resolver in
	// /etc/resolv.conf of many images, 127.0.0.53, does not work inside a pod.
	c.ResolverConfig = ptr.To("/run/drover/resolv.conf")
	c.RotateCertificates, c.ServerTLSBootstrap = true, true
	c.StaticPodPath = "/etc/kubernetes/manifests"
	return objectYAML(&c)
}

// bootstrapKubeconfig returns the kubeconfig with which the kubelet requests its first certificate.
func (in *Input) bootstrapKubeconfig() ([]byte, error) {
	return objectYAML(&clientcmd.Config{
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
