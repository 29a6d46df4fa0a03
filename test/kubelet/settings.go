package kubelet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"sigs.k8s.io/yaml"
)

// The files that a joining server needs.
const (
	BootstrapFile = "/etc/kubernetes/bootstrap-kubelet.conf"
	CAFile        = "/etc/kubernetes/pki/ca.crt"
	ConfigFile    = "/var/lib/kubelet/config.yaml"
	ArgsFile      = "/etc/default/kubelet"
)

// settings holds the kubelet's arguments and configuration, as its files contain them.
type settings struct {
	bootstrap *rest.Config
	config    kubeletconfig.KubeletConfiguration
	name      string
	labels    map[string]string
	taints    []corev1.Taint
	version   string
	external  bool
	// providerID is the provider ID if the server itself knows it; otherwise empty.
	providerID string
}

// readSettings reads the kubelet's settings from the files of the server's first boot. Its errors name the file.
func readSettings(boot *Boot, id identity) (*settings, error) {
	for _, path := range []string{BootstrapFile, CAFile, ConfigFile, ArgsFile} {
		if strings.TrimSpace(boot.Files[path]) == "" {
			return nil, fmt.Errorf("reading %s: the user data writes no such file", path)
		}
	}
	s := &settings{}
	var err error
	if s.bootstrap, err = bootstrapConfig(boot); err != nil {
		return nil, fmt.Errorf("reading %s: %w", BootstrapFile, err)
	}
	if err := yaml.UnmarshalStrict([]byte(boot.Files[ConfigFile]), &s.config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", ConfigFile, err)
	}
	args, err := kubeletArgs(boot.Files[ArgsFile])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ArgsFile, err)
	}
	if s.labels, err = nodeLabels(args["node-labels"]); err != nil {
		return nil, fmt.Errorf("reading %s: %w", ArgsFile, err)
	}
	s.external = args["cloud-provider"] == "external"
	s.taints = s.config.RegisterWithTaints
	s.name = firstOf(args["hostname-override"], boot.Hostname, id.Name)
	if problems := validation.IsDNS1123Subdomain(s.name); len(problems) > 0 {
		return nil, fmt.Errorf("naming the node %q: %s", s.name, strings.Join(problems, "; "))
	}
	if s.version, err = kubeletVersion(boot); err != nil {
		return nil, err
	}
	s.providerID = firstOf(args["provider-id"], s.config.ProviderID)
	if prefix := firstMatch(boot, providerIDPrefix); s.providerID == "" && prefix != "" {
		s.providerID = prefix + id.UUID
	}
	return s, nil
}

// bootstrapConfig reads the bootstrap kubeconfig. The certificate files that it names are files of the same boot.
func bootstrapConfig(boot *Boot) (*rest.Config, error) {
	kubeconfig, err := clientcmd.Load([]byte(boot.Files[BootstrapFile]))
	if err != nil {
		return nil, err
	}
	for name, cluster := range kubeconfig.Clusters {
		if cluster.CertificateAuthority == "" {
			continue
		}
		ca, ok := boot.Files[cluster.CertificateAuthority]
		if !ok {
			return nil, fmt.Errorf("cluster %s names %s, which the user data does not write", name, cluster.CertificateAuthority)
		}
		cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", []byte(ca)
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	if config.BearerToken == "" {
		return nil, fmt.Errorf("it holds no token")
	}
	return config, nil
}

// kubeletArgs parses KUBELET_EXTRA_ARGS in an environment file, and returns the values by flag.
func kubeletArgs(environment string) (map[string]string, error) {
	for _, line := range strings.Split(environment, "\n") {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "KUBELET_EXTRA_ARGS=")
		if !ok {
			continue
		}
		args := map[string]string{}
		for _, arg := range strings.Fields(strings.Trim(value, `"'`)) {
			name, ok := strings.CutPrefix(arg, "--")
			if !ok {
				return nil, fmt.Errorf("KUBELET_EXTRA_ARGS: %q is not a flag; write --name=value", arg)
			}
			name, val, _ := strings.Cut(name, "=")
			args[name] = strings.Trim(val, `"'`)
		}
		return args, nil
	}
	return nil, fmt.Errorf("it sets no KUBELET_EXTRA_ARGS")
}

// nodeLabels parses --node-labels. Like a kubelet it refuses labels of the Kubernetes domains that a kubelet must not set.
func nodeLabels(flag string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range strings.Split(flag, ",") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("--node-labels: %q has no value", pair)
		}
		domain, _, namespaced := strings.Cut(key, "/")
		foreign := namespaced && (isOrUnder(domain, "kubernetes.io") || isOrUnder(domain, "k8s.io"))
		if foreign && !kubeletapis.IsKubeletLabel(key) {
			return nil, fmt.Errorf("--node-labels: a kubelet may not label itself %q", key)
		}
		labels[key] = value
	}
	return labels, nil
}

func isOrUnder(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// versionMarks match the kubelet version in the forms in which boot scripts contain it.
var versionMarks = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^\s*(?:export )?KUBE(?:LET|RNETES)?_VERSION=["']?v?(\d+\.\d+\.\d+)`),
	regexp.MustCompile(`dl\.k8s\.io/(?:release/)?v(\d+\.\d+\.\d+)`),
}

// providerIDPrefix matches the line of a boot script that sets the prefix of the provider ID, to which the server's own
// UUID is appended.
var providerIDPrefix = regexp.MustCompile(`(?m)^\s*(?:export )?PROVIDER_ID_PREFIX=["']?([^"'\s]+)`)

func kubeletVersion(boot *Boot) (string, error) {
	for _, mark := range versionMarks {
		if version := firstMatch(boot, mark); version != "" {
			return "v" + version, nil
		}
	}
	return "", fmt.Errorf("installing the kubelet: no file of the user data says which version")
}

// firstMatch searches the files in the order of their paths, and returns the first capture group of the first match. It
// returns an empty text when no file matches.
func firstMatch(boot *Boot, mark *regexp.Regexp) string {
	for _, path := range slices.Sorted(maps.Keys(boot.Files)) {
		if m := mark.FindStringSubmatch(boot.Files[path]); m != nil {
			return m[1]
		}
	}
	return ""
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
