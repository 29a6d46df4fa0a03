package bootstrap

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Paths on the server. The paths of the kubelet are those in its documentation.
const (
	pathBootstrap  = "/etc/kubernetes/bootstrap-kubelet.conf"
	pathCA         = "/etc/kubernetes/pki/ca.crt"
	pathConfig     = "/var/lib/kubelet/config.yaml"
	pathArgs       = "/etc/default/kubelet"
	pathSettings   = "/etc/drover/setup.env"
	pathProxy      = "/etc/drover/proxy.env"
	pathTrusted    = "/etc/drover/ca"
	pathSetup      = "/opt/drover/setup"
	pathReport     = "/opt/drover/report"
	pathWatchdog   = "/opt/drover/watchdog"
	pathRegistries = "/etc/containerd/certs.d"
	pathResolver   = "/etc/systemd/resolved.conf.d/10-drover.conf"
	pathUserCA     = "/etc/ssh/drover-user-ca.pub"
	pathSSHD       = "/etc/ssh/sshd_config.d/60-drover.conf"
	// systemd applies drop-ins in the order of their names. The image's own drop-ins must not override these.
	pathKubeletDropIn = "/etc/systemd/system/kubelet.service.d/zz-drover.conf"
	pathProxyDropIn   = "/etc/systemd/system/containerd.service.d/zz-drover-proxy.conf"
)

//go:embed files
var static embed.FS

// content returns the content of a file of this package. A name that does not exist shows in the golden files.
func content(name string) string {
	raw, _ := static.ReadFile("files/" + name)
	return string(raw)
}

// file is one file on the server's disk.
type file struct {
	path    string
	mode    int
	content string
}

// unit is a systemd unit that is started at boot.
type unit struct{ name, content string }

// document holds the files and units that a new server gets at its first boot. cloud-init and Ignition documents are written from it.
type document struct {
	files []file
	units []unit
}

// document returns the files and units for the Machine's server, in the same form for every operating system.
func (in *Input) document() (*document, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	config, err := in.kubeletConfig()
	if err != nil {
		return nil, fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	kubeconfig, err := in.bootstrapKubeconfig()
	if err != nil {
		return nil, fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
	}
	d := &document{files: []file{
		{pathBootstrap, 0o600, string(kubeconfig)},
		{pathCA, 0o644, string(in.CA)},
		{pathConfig, 0o600, string(config)},
		{pathArgs, 0o644, in.kubeletArgs()},
		{pathSettings, 0o644, in.settings()},
	}}
	for _, f := range builtin {
		f.content = content(f.content)
		d.files = append(d.files, f)
	}
	site, err := in.siteFiles()
	if err != nil {
		return nil, err
	}
	d.files = slices.Concat(d.files, in.machineFiles(), site)
	names := builtinUnits
	if in.packages() != "" {
		names = append(slices.Clone(names), packagesUnit)
	}
	for _, name := range names {
		d.units = append(d.units, unit{name, content(name)})
	}
	return d, nil
}

// builtin lists the files that are the same on every server. Their content is in files of this package.
var builtin = []file{
	{"/etc/modules-load.d/kubernetes.conf", 0o644, "modules.conf"},
	{"/etc/sysctl.d/90-kubernetes.conf", 0o644, "sysctl.conf"},
	{"/opt/drover/containerd.service", 0o644, "containerd.service"},
	{pathKubeletDropIn, 0o644, "kubelet.conf"},
	{pathSetup, 0o755, "setup.sh"},
	{pathReport, 0o755, "report.sh"},
	{pathWatchdog, 0o755, "watchdog.sh"},
}

// builtinUnits lists the units that every operating system starts.
var builtinUnits = []string{"drover-setup.service", "kubelet.service", "drover-report.service", "drover-watchdog.service"}

// packagesUnit is the unit that installs the packages in [Input.packages]. A server without such packages does not get it.
const packagesUnit = "drover-packages.service"

// packages returns the names of the packages to install in addition to the kubelet, separated by spaces; empty on systems without
// packages.
func (in *Input) packages() string {
	if in.Provider.OperatingSystem != "ubuntu" {
		return ""
	}
	return strings.Join(in.Site.Packages, " ")
}

// machineFiles returns the files that the Machine's own config requires.
func (in *Input) machineFiles() []file {
	var out []file
	if n := in.Provider.Network; n != nil && len(n.DNS.Servers) > 0 {
		out = append(out, file{pathResolver, 0o644, "[Resolve]\nDNS=" + strings.Join(n.DNS.Servers, " ") + "\n"})
	}
	if key := strings.TrimSpace(in.Provider.CAPublicKey); key != "" {
		out = append(out, file{pathUserCA, 0o644, key + "\n"}, file{pathSSHD, 0o600, "TrustedUserCAKeys " + pathUserCA + "\n"})
	}
	return out
}

// siteFiles returns the files that the operator's settings require.
func (in *Input) siteFiles() ([]file, error) {
	out, err := in.Site.registryFiles()
	if err != nil {
		return nil, err
	}
	certificates, err := in.Site.certificates()
	if err != nil {
		return nil, err
	}
	for i, c := range certificates {
		out = append(out, file{fmt.Sprintf("%s/%d.crt", pathTrusted, i), 0o644, c})
	}
	if env := in.Site.proxy(in.Server); env != "" {
		out = append(out, file{pathProxy, 0o600, env},
			file{pathProxyDropIn, 0o644, proxyDropIn})
	}
	return out, nil
}

// proxyDropIn makes a service use the proxy.
const proxyDropIn = "[Service]\nEnvironmentFile=" + pathProxy + "\n"

// ownRuntimeConfig reports whether containerd must run with a configuration that is created on the server, even when the operating system
// has one.
func (in *Input) ownRuntimeConfig() bool {
	return in.Site.PauseImage != "" || len(in.Site.RegistryMirrors)+len(in.Site.InsecureRegistries) > 0
}

// settings returns the environment of the setup script: all values that differ between Machines.
func (in *Input) settings() string {
	values := map[string]string{
		"KUBELET_VERSION":     strings.TrimPrefix(in.KubeletVersion, "v"),
		"CONTAINERD_VERSION":  versionOf(in.Site.ContainerdVersion, DefaultContainerd),
		"RUNC_VERSION":        versionOf(in.Site.RuncVersion, DefaultRunc),
		"CNI_PLUGINS_VERSION": versionOf(in.Site.CNIPluginsVersion, DefaultCNIPlugins),
		"PROVIDER_ID_PREFIX":  in.ProviderIDPrefix,
		"PAUSE_IMAGE":         in.Site.PauseImage,
		"RUNTIME_CONFIG":      "",
		"PACKAGES":            in.packages(),
		"DIST_UPGRADE":        "",
	}
	if in.ownRuntimeConfig() {
		values["RUNTIME_CONFIG"] = "own"
	}
	if spec, err := in.osSpec(); err == nil && spec.DistUpgradeOnBoot {
		values["DIST_UPGRADE"] = "yes"
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out.WriteString(assign(name, values[name]))
	}
	return out.String()
}
