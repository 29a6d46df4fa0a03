package bootstrap

import (
	"slices"
	"strings"

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

// prefersIPv6 reports whether the node's first address must be its IPv6 address.
func (in *Input) prefersIPv6() bool {
	return in.Provider.Network != nil && strings.HasPrefix(in.Provider.Network.IPFamily, "IPv6")
}

// keysOf returns the keys in an entry of sshPublicKeys: its lines without empty lines and comments, as in an authorized_keys file.
func keysOf(entry string) (keys []string) {
	for line := range strings.Lines(entry) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys
}

// sshKeys returns all keys of sshPublicKeys. Of keys that differ only in white space or in the comment, it returns the first: Ignition
// refuses a key that is listed twice (F-154).
func (in *Input) sshKeys() (keys []string) {
	known := map[string]bool{}
	for _, entry := range in.Provider.SSHPublicKeys {
		for _, key := range keysOf(entry) {
			if id := withoutComment(key); !known[id] {
				known[id] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// withoutComment returns the options, the type and the data of an SSH key, separated by one space each. The data of every key begins
// with AAAA, because it begins with the length of the type in four bytes.
func withoutComment(key string) string {
	fields := strings.Fields(key)
	if i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "AAAA") }); i > 0 {
		fields = fields[:i+1]
	}
	return strings.Join(fields, " ")
}
