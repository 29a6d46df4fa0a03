package bootstrap

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/openstack/provider"
	"github.com/drover-project/drover/test/kubelet"
)

// hostile lists texts that could end the string, line or document into which they are written.
var hostile = []string{
	"", "a", "$(reboot)", "`reboot`", "a'b", `a"b`, `a\`, "a\nb: c", "a\r\nb", "a\x00b", "x --anonymous-auth=true", "a,b=c", "- a", "#", "{{}}", "%s", "é", "\u2028",
	"'; reboot #", "\"\nruncmd: [[reboot]]\n", "<<EOF", "a: |\n  b", strings.Repeat("a", 300), "\xff", "a=b", "*", "~", "yes", "0x10",
}

// FuzzTextInUserDataIsRefusedOrStaysInItsField writes arbitrary texts into every field that a user or an operator sets. The text must be
// refused, or must only be the value of that field: the user data has the same files, commands and other settings as with a harmless
// text.
func FuzzTextInUserDataIsRefusedOrStaysInItsField(f *testing.F) {
	for _, text := range hostile {
		for field := range fields {
			f.Add(uint8(field), text)
		}
	}
	f.Fuzz(func(t *testing.T, field uint8, text string) {
		for _, system := range []string{"ubuntu", "flatcar"} {
			checkContained(t, system, fields[int(field)%len(fields)], text)
		}
	})
}

// fields lists the inputs that a user or an operator sets.
var fields = []struct {
	name string
	set  func(in *Input, text string)
}{
	{"name", func(in *Input, s string) { in.Name = s }},
	{"label value", func(in *Input, s string) { in.Labels["team"] = s }},
	{"label key", func(in *Input, s string) { in.Labels[s] = "x" }},
	{"taint value", func(in *Input, s string) { in.Taints[0].Value = s }},
	{"taint key", func(in *Input, s string) { in.Taints[0].Key = s }},
	{"taint effect", func(in *Input, s string) { in.Taints[0].Effect = corev1.TaintEffect(s) }},
	{"SSH key", func(in *Input, s string) { in.Provider.SSHPublicKeys[0] = s }},
	{"SSH key's comment", func(in *Input, s string) { in.Provider.SSHPublicKeys[0] += s }},
	{"CA key", func(in *Input, s string) { in.Provider.CAPublicKey = "ssh-ed25519 AAAA " + s }},
	{"kubelet's version", func(in *Input, s string) { in.KubeletVersion = s }},
	{"end of the kubelet's version", func(in *Input, s string) { in.KubeletVersion = "1.36.2-" + s }},
	{"resolver", func(in *Input, s string) { in.Provider.Network.DNS.Servers[0] = s }},
	{"feature gate", func(in *Input, s string) { in.Kubelet.FeatureGates = map[string]bool{s: true} }},
	{"log size", func(in *Input, s string) { in.Kubelet.ContainerLogMaxSize = s }},
	{"cluster's domain", func(in *Input, s string) { in.ClusterDomain = s }},
	{"proxy", func(in *Input, s string) { in.Site.HTTPProxy = "http://" + s }},
	{"no proxy", func(in *Input, s string) { in.Site.NoProxy = s }},
	{"mirror", func(in *Input, s string) { in.Site.RegistryMirrors = []string{s} }},
	{"mirror's registry", func(in *Input, s string) { in.Site.RegistryMirrors = []string{s + "=https://a.example"} }},
	{"insecure registry", func(in *Input, s string) { in.Site.InsecureRegistries = []string{s} }},
	{"package", func(in *Input, s string) { in.Site.Packages = []string{s} }},
	{"pause image", func(in *Input, s string) { in.Site.PauseImage = s }},
	{"containerd's version", func(in *Input, s string) { in.Site.ContainerdVersion = s }},
	{"runc's version", func(in *Input, s string) { in.Site.RuncVersion = s }},
	{"version of the CNI plugins", func(in *Input, s string) { in.Site.CNIPluginsVersion = s }},
	{"provider ID", func(in *Input, s string) {
		in.ProviderIDPrefix = provider.Provider{Region: true}.KubeletIDPrefix(regionConfig(s), nil)
	}},
}

func checkContained(t *testing.T, system string, field struct {
	name string
	set  func(in *Input, text string)
}, text string) {
	in := siteInput(system)
	field.set(in, text)
	if in.Site.Check() != nil {
		return // refused at start
	}
	userData, err := in.Render()
	var refused *Problem
	if errors.As(err, &refused) {
		return
	}
	if err != nil {
		t.Fatalf("%s %q: %v", field.name, text, err)
	}
	boot, err := kubelet.ParseUserData(userData)
	if err != nil {
		t.Fatalf("%s %q breaks the document: %v", field.name, text, err)
	}
	units := "drover-setup.service kubelet.service drover-report.service drover-watchdog.service"
	if in.Provider.OperatingSystem == "ubuntu" && len(in.Site.Packages) > 0 {
		units += " drover-packages.service"
	}
	if strings.Join(boot.Units, " ") != units || !strings.HasPrefix(field.name, "name") && boot.Hostname != "nodes-abc-12345" {
		t.Errorf("%s %q: host %q starts %q", field.name, text, boot.Hostname, boot.Units)
	}
	for path := range boot.Files {
		if strings.Contains(path, "..") || strings.ContainsAny(path, " \n'\"$`") {
			t.Errorf("%s %q writes %q", field.name, text, path)
		}
	}
	for path, names := range map[string][]string{
		"/etc/drover/setup.env": {"CNI_PLUGINS_VERSION", "CONTAINERD_VERSION", "DIST_UPGRADE", "KUBELET_VERSION", "PACKAGES", "PAUSE_IMAGE", "PROVIDER_ID_PREFIX", "RUNC_VERSION", "RUNTIME_CONFIG"},
		"/etc/default/kubelet":  {"KUBELET_EXTRA_ARGS"},
		"/etc/drover/proxy.env": {"ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"},
	} {
		checkEnvironment(t, boot.Files[path], names)
	}
	checkConfiguration(t, in, boot.Files[kubelet.ConfigFile])
	for _, arg := range strings.Fields(strings.Trim(strings.TrimPrefix(strings.TrimSpace(boot.Files["/etc/default/kubelet"]), "KUBELET_EXTRA_ARGS="), "'")) {
		name, _, _ := strings.Cut(arg, "=")
		switch name {
		case "--hostname-override", "--cloud-provider", "--node-ip", "--node-labels":
		default:
			t.Errorf("%s %q makes the flag %q", field.name, text, arg)
		}
	}
}

// checkConfiguration reads the kubelet's configuration as the kubelet does. It checks that no key is unknown, that no key occurs twice,
// and that the values are the requested ones.
func checkConfiguration(t *testing.T, in *Input, text string) {
	t.Helper()
	var config kubeletconfig.KubeletConfiguration
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatalf("the kubelet cannot read its configuration: %v\n%s", err, text)
	}
	var dns []string
	if in.Provider.Network != nil {
		dns = config.ClusterDNS
	}
	if !slices.Equal(config.RegisterWithTaints, in.Taints) || config.ClusterDomain != in.ClusterDomain || config.MaxPods != in.Kubelet.MaxPods ||
		config.ContainerLogMaxSize != in.Kubelet.ContainerLogMaxSize || !slices.Equal(dns, in.ClusterDNS) || !config.RotateCertificates || !config.ServerTLSBootstrap {
		t.Errorf("the kubelet reads another value than requested: %+v", config)
	}
	if auth := config.Authentication; auth.Anonymous.Enabled == nil || *auth.Anonymous.Enabled || config.Authorization.Mode != kubeletconfig.KubeletAuthorizationModeWebhook {
		t.Errorf("the kubelet allows anonymous access: %+v, %+v", config.Authentication, config.Authorization)
	}
}

// checkEnvironment reads a file as a shell and systemd do: one assignment per line, with its value in single quotes.
func checkEnvironment(t *testing.T, content string, names []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	if len(lines) != len(names) {
		t.Errorf("%d lines for %d settings:\n%s", len(lines), len(names), content)
		return
	}
	for i, line := range lines {
		value, ok := strings.CutPrefix(line, names[i]+"='")
		value, closed := strings.CutSuffix(value, "'")
		if !ok || !closed || strings.ContainsAny(value, "'\x00\r") {
			t.Errorf("line %q: want %s='…'", line, names[i])
		}
	}
}

func regionConfig(region string) *v1alpha1.ProviderConfig {
	c := &v1alpha1.ProviderConfig{}
	c.CloudProviderSpec.Raw, _ = json.Marshal(map[string]string{"region": region})
	return c
}
