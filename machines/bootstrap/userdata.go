package bootstrap

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

// Problem is what is wrong with a Machine's own description: waiting does not cure it.
type Problem struct{ Message string }

func (p *Problem) Error() string { return p.Message }

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
	// ProviderIDPrefix stands before the server's uuid in the node's spec.providerID.
	ProviderIDPrefix string
}

// maxEncoded is how long user data may be in base64 form (Nova's limit).
const maxEncoded = 65535

// Render writes the user data. The same input gives the same bytes. Errors are of type *[Problem].
func (in *Input) Render() ([]byte, error) {
	out, err := in.render()
	if err != nil {
		return nil, err
	}
	if n := base64.StdEncoding.EncodedLen(len(out)); n > maxEncoded {
		return nil, problem("the user data of %s has %d bytes in base64 form and may have %d: shorten overwriteCloudConfig or sshPublicKeys", in.Name, n, maxEncoded)
	}
	return out, nil
}

func (in *Input) render() ([]byte, error) {
	if text := in.Provider.OverwriteCloudConfig; text != nil && *text != "" {
		return []byte(in.replace(*text)), nil
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

// replace fills the placeholders of user data that somebody else wrote.
func (in *Input) replace(text string) string {
	var pairs []string
	for placeholder, value := range map[string]string{
		"<<MACHINE_NAME>>": in.Name, "<<BOOTSTRAP_TOKEN>>": in.Token.String(), "<MACHINE_NAME>": in.Name,
	} {
		pairs = append(pairs, placeholder, value, url.QueryEscape(placeholder), url.QueryEscape(value))
	}
	// A Replacer compares in argument order at each position, and no placeholder begins another at the same one:
	// << and < differ in their second byte.
	return strings.NewReplacer(pairs...).Replace(text)
}

// osSpec reads the operating system's own part of the provider config.
func (in *Input) osSpec(into any) error {
	raw := in.Provider.OperatingSystemSpec.Raw
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return problem("operatingSystemSpec: %v", err)
	}
	return nil
}
