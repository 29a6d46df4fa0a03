package bootstrap

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Input holds everything that user data depends on.
type Input struct {
	// Name is the name of the server, the host and the Node.
	Name string
	// Provider is the Machine's provider config: operating system, SSH keys, network.
	Provider *v1alpha1.ProviderConfig
	// KubeletVersion is spec.versions.kubelet, with or without a leading v.
	KubeletVersion string
	Kubelet        KubeletSettings
	// Server is the API server's URL. CA is the certificate authority of that server, in PEM form.
	Server string
	CA     []byte
	Token  Token
	// ClusterDNS and ClusterDomain configure the name resolution of pods.
	ClusterDNS    []string
	ClusterDomain string
	// Labels are the labels of the Node. Labels that a kubelet may not set are left out (see [RegistrationLabels]).
	Labels map[string]string
	// Taints are the taints of the Node from its registration on.
	Taints []corev1.Taint
	// ProviderIDPrefix precedes the server's UUID in the Node's spec.providerID. Empty means that the cloud-controller-manager sets
	// spec.providerID, not the kubelet.
	ProviderIDPrefix string
	// Site holds the operator's settings for every node.
	Site Site
}
