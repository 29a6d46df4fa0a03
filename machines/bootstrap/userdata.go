package bootstrap

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Problem is what is wrong with a Machine's own description: waiting does not cure it.
type Problem struct{ Message string }

func (p *Problem) Error() string { return p.Message }

// Waiting is what must come first before there can be user data: it passes by itself, or by an operator's hand.
type Waiting struct {
	Message string
	// Forbidden: it is drover's role that is missing.
	Forbidden bool
}

func (w *Waiting) Error() string { return w.Message }

func waiting(format string, args ...any) error {
	return &Waiting{Message: fmt.Sprintf(format, args...)}
}

func problem(format string, args ...any) error {
	return &Problem{Message: fmt.Sprintf(format, args...)}
}

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

// maxEncoded is how long user data may be in base64 form (Nova's limit).
const maxEncoded = 65535

// Render writes the user data. The same input gives the same bytes. Errors are of type *[Problem].
func (in *Input) Render() ([]byte, error) {
	out, err := in.render()
	if err != nil {
		return nil, err
	}
	return out, fits(in.Name, out)
}

// fits refuses what Nova would refuse (MC-44, CAPI-29).
func fits(name string, userData []byte) error {
	if n := base64.StdEncoding.EncodedLen(len(userData)); n > maxEncoded {
		return problem("the user data of %s has %d bytes in base64 form and may have %d: shorten overwriteCloudConfig, sshPublicKeys or what else is of your making", name, n, maxEncoded)
	}
	return nil
}

func (in *Input) render() ([]byte, error) {
	if text := in.Provider.OverwriteCloudConfig; text != nil && *text != "" {
		return []byte(in.fill(*text)), nil
	}
	var write func(*document) ([]byte, error)
	switch in.Provider.OperatingSystem {
	case "ubuntu":
		write = in.cloudConfig
	case "flatcar":
		write = in.ignition
	default:
		return nil, problem("operatingSystem %q is not supported: use ubuntu or flatcar", in.Provider.OperatingSystem)
	}
	doc, err := in.document()
	if err != nil {
		return nil, err
	}
	return write(doc)
}
