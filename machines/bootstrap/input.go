package bootstrap

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Input is everything that user data depends on.
type Input struct {
	// Name is the server's, the host's and the node's name.
	Name string
	// Provider is the Machine's provider config: operating system, SSH keys, overwriteCloudConfig.
	Provider *v1alpha1.ProviderConfig
	// KubeletVersion is spec.versions.kubelet, with or without a leading v.
	KubeletVersion string
	Kubelet        KubeletSettings
	// Server is the API server's URL, CA its certificate authority in PEM form.
	Server string
	CA     []byte
	Token  Token
	// ClusterDNS and ClusterDomain are what pods resolve names with.
	ClusterDNS    []string
	ClusterDomain string
	// Labels that the node is to bear; those that a kubelet may not set are left out here (see [RegistrationLabels]).
	Labels map[string]string
	// Taints that the node bears from its registration on.
	Taints []corev1.Taint
	// ProviderIDPrefix stands before the server's uuid in the node's spec.providerID. Empty: the kubelet names none, and
	// the cloud-controller-manager does.
	ProviderIDPrefix string
	// Site is what the operator sets for every node.
	Site Site
}
